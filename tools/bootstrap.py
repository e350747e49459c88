"""Makes a bare checkout able to run its tests: a virtual environment, our own package in it, the Kafka jars, and
PySpark's older releases.

Needs nothing but the standard library. Decides when an environment is out of date; never touches one that isn't ours.
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
    """Make or refresh the environment, fetch the jars and PySpark's older releases; gives the environment's Python."""
    python = prepare_environment()
    _run([python, "-m", "tools.kafka", "install"], "Kafka's jars can't be had")
    _run([python, "-m", "tools.older_spark"], "Older releases of PySpark can't be had")
    return python


def prepare_environment(extra: str = "dev") -> Path:
    """An environment with our package and one of its extras, as pyproject.toml wants them now."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        _create_environment()
    stamp = ENVIRONMENT / f"kshare-installed-{extra}"
    wanted = _fingerprint()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        _say(f"installing kshare[{extra}] (once, and when the project's metadata changes)")
        _run(
            [python, "-m", "pip", "install", "--quiet", "-e", f".[{extra}]"],
            "The packages can't be installed",
        )
        stamp.write_text(wanted, encoding="utf-8")
    return python


def prepare_to_run(*packages: str) -> Path:
    """An environment in which our package runs from its sources, uncompiled if it wasn't compiled before; quick."""
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
    """Ours, with the environment's own programs first. Bytecode is kept: to compile all tests anew takes seconds."""
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
            f"{sys.executable} can't make virtual environments: it lacks ensurepip. "
            "Install your system's python3-venv package, or run tools/test with another Python."
        )
    _say(f"making a virtual environment in {ENVIRONMENT}")
    _run([sys.executable, "-m", "venv", ENVIRONMENT], "The virtual environment can't be made")


def _fingerprint() -> str:
    """Changes when an installation made before is out of date: metadata, or sources that are compiled."""
    digest = hashlib.sha256()
    for source in [ROOT / "pyproject.toml", ROOT / "setup.py", *_compiled_sources()]:
        if source.exists():
            digest.update(str(source.relative_to(ROOT)).encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()


def _compiled_sources() -> list[Path]:
    """Everything Cython reads: .pyx and .pxd files, and the Python modules that have a .pxd beside them."""
    declarations = sorted((ROOT / "kshare").rglob("*.pxd"))
    modules = [path.with_suffix(".py") for path in declarations]
    return [*declarations, *modules, *sorted((ROOT / "kshare").rglob("*.pyx"))]


def _run(command: list[str | Path], complaint: str) -> None:
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment_variables(), check=False
    )
    if done.returncode:
        raise BootstrapError(f"{complaint}: see above.")


def _say(line: str) -> None:
    print(f"kshare: {line}", file=sys.stderr, flush=True)
