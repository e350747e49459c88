"""Prepares a fresh checkout for running its tests.

Installs a virtual environment with kshare, the Kafka jars, PySpark's older releases, Redis and a browser.

Needs only the standard library. Decides when an environment is out of date. Never changes any other environment.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools import packages

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
OLDEST_PYTHON = (3, 11)


class BootstrapError(RuntimeError):
    """This machine can't run the tests; the message says what to do about it."""


def prepare() -> Path:
    """Create or update the environment, and install everything else that tests need. Returns the environment's Python.

    Much of it waits for downloads, so kshare is compiled meanwhile.
    """
    python = _python()
    is_fresh = not _stamp("dev").exists()
    with ThreadPoolExecutor() as beside:
        older_spark: list[str | Path] = [python, "-m", "tools.older_spark"]
        installing = [
            beside.submit(install_optional, "chromium"),
            beside.submit(_run, older_spark, "Older releases of PySpark can't be installed"),
        ]
        _install_requirements("dev")
        kafka: list[str | Path] = [python, "-m", "tools.kafka", "install"]
        installing += [
            beside.submit(install_optional, "redis_server"),
            beside.submit(_run, kafka, "Kafka's jars can't be installed"),
        ]
        _install_kshare("dev")
        if is_fresh:
            _compile_tests(python)
        for part in installing:
            part.result()
    return python


def prepare_environment(extra: str = "dev") -> Path:
    """Create or update an environment with kshare and one of its extras, as pyproject.toml requires them."""
    python = _python()
    _install_requirements(extra)
    _install_kshare(extra)
    return python


def _install_requirements(extra: str) -> None:
    if not _is_current(_stamp(extra)):
        _say(f"installing what kshare[{extra}] needs (once, and when the project's metadata changes)")
        _install(_python(), requirements(_project(), extra), "The packages can't be installed")


def _install_kshare(extra: str) -> None:
    stamp = _stamp(extra)
    if not _is_current(stamp):
        wanted = _fingerprint()  # of what is compiled now, whatever is edited meanwhile
        _say("compiling kshare (once, and when the project's metadata or what is compiled changes)")
        _install(
            _python(), ["--no-deps", "-e", ROOT], "kshare can't be compiled", KSHARE_REQUIRE_COMPILED="1"
        )
        stamp.write_text(wanted, encoding="utf-8")


def requirements(project: dict[str, Any], extra: str | None = None) -> list[str]:
    """What the project needs, with one of its extras, which may name others: `kshare[cli,web]`."""
    if extra is None:
        return [*project.get("dependencies", [])]
    own = re.compile(rf"{re.escape(project['name'])}\[(.+)\]")
    found = requirements(project)
    for wanted in project["optional-dependencies"][extra]:
        if others := own.fullmatch(wanted):
            found += [
                requirement for other in others[1].split(",") for requirement in requirements(project, other)
            ]
        else:
            found.append(wanted)
    return [*dict.fromkeys(found)]


def prepare_to_run(*besides: str) -> Path:
    """Create or update an environment in which kshare runs from its sources, without compiling it. This is quick."""
    python = _python()
    stamp = ENVIRONMENT / f"kshare-runs-with-{'-'.join(besides)}"
    if not _is_current(stamp):
        wanted = _fingerprint()
        _say("installing what kshare needs (once, and when the project's metadata changes)")
        _install(python, [*requirements(_project()), *besides], "The packages can't be installed")
        stamp.write_text(wanted, encoding="utf-8")
    return python


def become(prepare: Callable[[], Path], *words: str, **variables: str) -> int:
    """For our scripts: become `python -m` with these words, in the environment that `prepare` returns.

    Returns an exit code only if there is no environment. There is no child: Ctrl-C would reach both processes, and
    whoever waits for a child kills it soon after.
    """
    script = f"tools/{Path(sys.argv[0]).name}"
    try:
        python = prepare()
    except BootstrapError as problem:
        print(f"{script}: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{script}: interrupted", file=sys.stderr)
        return 130
    os.chdir(ROOT)
    return os.execve(python, [str(python), "-m", *words], environment_variables() | variables)


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


def _is_current(stamp: Path) -> bool:
    return stamp.exists() and stamp.read_text(encoding="utf-8") == _fingerprint()


def _project() -> dict[str, Any]:
    metadata: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project: dict[str, Any] = metadata["project"]
    return project


def _python() -> Path:
    """The environment's. Creates the environment if necessary."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        _create_environment()
    return python


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
    try:
        _run([sys.executable, "-m", "venv", ENVIRONMENT], "The virtual environment can't be created")
    except BaseException:
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)  # half of one would look like one
        raise
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


def _install(python: Path, wanted: Sequence[str | Path], complaint: str, **variables: str) -> None:
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
