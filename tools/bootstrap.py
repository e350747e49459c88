"""Prepares a fresh checkout for running its tests.

Installs a virtual environment with kshare, the Kafka jars, PySpark's older releases, Redis and a browser.

Needs only the standard library. Decides when an environment is out of date. Never changes any other environment.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools import packages

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
OLDEST_PYTHON = (3, 11)


class BootstrapError(RuntimeError):
    """This machine can't run the tests; the message says what to do about it."""


def prepare() -> Path:
    """Create or update the environment, and install everything else that tests need. Returns the environment's Python.

    Most of it waits for downloads, so it happens at the same time.
    """
    python = _python()
    is_fresh = not _stamp("dev").exists()
    with ThreadPoolExecutor() as beside:
        installing = [
            beside.submit(install_optional, "chromium"),
            beside.submit(_install_older_spark, python),
        ]
        prepare_environment()
        installing.append(beside.submit(install_optional, "redis_server"))
        if is_fresh:
            installing.append(beside.submit(_compile_tests, python))
        _run([python, "-m", "tools.kafka", "install"], "Kafka's jars can't be installed")
        for part in installing:
            part.result()
    return python


def prepare_environment(extra: str = "dev") -> Path:
    """Create or update an environment with kshare and one of its extras, as pyproject.toml requires them."""
    python = _python()
    stamp = _stamp(extra)
    wanted = _fingerprint()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        _say(f"installing kshare[{extra}] (once, and when the project's metadata changes)")
        _install(
            python,
            ["-e", f"{ROOT}[{extra}]"],
            "The packages can't be installed, or kshare can't be compiled",
            KSHARE_REQUIRE_COMPILED="1",
        )
        stamp.write_text(wanted, encoding="utf-8")
    return python


def prepare_to_run(*besides: str) -> Path:
    """Create or update an environment in which kshare runs from its sources, without compiling it. This is quick."""
    python = _python()
    stamp = ENVIRONMENT / f"kshare-runs-with-{'-'.join(besides)}"
    wanted = _fingerprint()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        _say("installing what kshare needs (once, and when the project's metadata changes)")
        _install(python, [*project["dependencies"], *besides], "The packages can't be installed")
        stamp.write_text(wanted, encoding="utf-8")
    return python


def environment_variables() -> dict[str, str]:
    """Our variables, with the environment's programs first on the path. Bytecode is kept: compiling takes seconds."""
    path = os.pathsep.join([str(ENVIRONMENT / "bin"), os.environ.get("PATH", os.defpath)])
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PATH": path, "VIRTUAL_ENV": str(ENVIRONMENT)}


def install_optional(name: str) -> None:
    """What a module of `tools` installs. If that fails, it says so, and the tests that need it are left out."""
    subprocess.run([_python(), "-m", f"tools.{name}"], cwd=ROOT, env=environment_variables(), check=False)


def _stamp(extra: str) -> Path:
    """A file that says what was installed."""
    return ENVIRONMENT / f"kshare-installed-{extra}"


def _python() -> Path:
    """The environment's. Creates the environment if necessary."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        _create_environment()
    return python


def _install_older_spark(python: Path) -> None:
    _run([python, "-m", "tools.older_spark"], "Older releases of PySpark can't be installed")


def _compile_tests(python: Path) -> None:
    """Import all tests once, so that bytecode is there when several processes import them at the same time."""
    subprocess.run(
        [python, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=environment_variables(),
        check=False,
    )


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
    packages.prepare(ENVIRONMENT / "bin" / "python", environment_variables())


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


def _install(python: Path, wanted: list[str], complaint: str, **variables: str) -> None:
    if not packages.install(python, *wanted, variables={**environment_variables(), **variables}):
        raise BootstrapError(f"{complaint}: see above.")


def _run(command: list[str | Path], complaint: str) -> None:
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment_variables(), check=False
    )
    if done.returncode:
        raise BootstrapError(f"{complaint}: see above.")


def _say(line: str) -> None:
    print(f"kshare: {line}", file=sys.stderr, flush=True)
