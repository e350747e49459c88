"""Prepares a fresh checkout for running its tests: installs a virtual environment with kshare, the Kafka jars, and
PySpark's older releases.

Needs only the standard library. Decides when an environment is out of date. Never changes any other environment.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
OLDEST_PYTHON = (3, 11)


class BootstrapError(RuntimeError):
    """This machine can't run the tests; the message says what to do about it."""


def prepare() -> Path:
    """Create or update the environment, the jars and PySpark's older releases. Returns the environment's Python."""
    python = prepare_environment()
    _run([python, "-m", "tools.kafka", "install"], "Kafka's jars can't be installed")
    _run([python, "-m", "tools.older_spark"], "Older releases of PySpark can't be installed")
    return python


def prepare_environment(extra: str = "dev") -> Path:
    """Create or update an environment with kshare and one of its extras, as pyproject.toml requires them."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        _create_environment()
    stamp = ENVIRONMENT / f"kshare-installed-{extra}"
    wanted = _fingerprint()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        _say(f"installing kshare[{extra}] (once, and when the project's metadata changes)")
        _run(
            [python, "-m", "pip", "install", "--quiet", "-e", f".[{extra}]"],
            "The packages can't be installed, or kshare can't be compiled",
            KSHARE_REQUIRE_COMPILED="1",
        )
        stamp.write_text(wanted, encoding="utf-8")
    return python


def prepare_to_run(*packages: str) -> Path:
    """Create or update an environment in which kshare runs from its sources, without compiling it. This is quick."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        _create_environment()
    stamp = ENVIRONMENT / f"kshare-runs-with-{'-'.join(packages)}"
    wanted = _fingerprint()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        _say("installing what kshare needs (once, and when the project's metadata changes)")
        _run(
            [python, "-m", "pip", "install", "--quiet", *project["dependencies"], *packages],
            "The packages can't be installed",
        )
        stamp.write_text(wanted, encoding="utf-8")
    return python


def environment_variables() -> dict[str, str]:
    """Our variables, with the environment's programs first on the path. Bytecode is kept: compiling takes seconds."""
    path = os.pathsep.join([str(ENVIRONMENT / "bin"), os.environ.get("PATH", os.defpath)])
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PATH": path, "VIRTUAL_ENV": str(ENVIRONMENT)}


def _create_environment() -> None:
    if sys.version_info < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        raise BootstrapError(
            f"kshare needs Python {wanted} or newer; {sys.executable} is {sys.version.split()[0]}."
        )
    if importlib.util.find_spec("ensurepip") is None:
        raise BootstrapError(
            f"{sys.executable} can't create virtual environments: it lacks ensurepip. "
            "Install your system's python3-venv package, or run tools/test with another Python."
        )
    _say(f"creating a virtual environment in {ENVIRONMENT}")
    _run([sys.executable, "-m", "venv", ENVIRONMENT], "The virtual environment can't be created")


def _fingerprint() -> str:
    """A hash of the metadata and of the sources that are compiled. If it changes, the installation is out of date."""
    digest = hashlib.sha256()
    for source in [ROOT / "pyproject.toml", ROOT / "setup.py", *_compiled_sources()]:
        if source.exists():
            digest.update(str(source.relative_to(ROOT)).encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()


def _compiled_sources() -> list[Path]:
    """Everything Cython reads: .pyx and .pxd files, and the Python modules that have a .pxd file."""
    declarations = sorted((ROOT / "kshare").rglob("*.pxd"))
    modules = [path.with_suffix(".py") for path in declarations]
    return [*declarations, *modules, *sorted((ROOT / "kshare").rglob("*.pyx"))]


def _run(command: list[str | Path], complaint: str, **variables: str) -> None:
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        env={**environment_variables(), **variables},
        check=False,
    )
    if done.returncode:
        raise BootstrapError(f"{complaint}: see above.")


def _say(line: str) -> None:
    print(f"kshare: {line}", file=sys.stderr, flush=True)
