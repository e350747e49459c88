"""A Chromium for tests: `python -m tools.chromium` installs the system's package, unless there is a browser already.

It is installed by apt-get, as root or through a sudo that asks for no password. On other systems, install Chromium or
Chrome yourself; it is found on the path.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names under which systems install it. The first one found is used."""
PACKAGE = "chromium"
MISSING = "Tests in a browser are left out: there is no Chromium. Install it, or Chrome, with the system's packages."
_LOCK_S = 120
"""How long apt-get waits for another one."""
_DEADLINE_S = 900.0


class InstallError(RuntimeError):
    """This machine doesn't let us install a browser; the message says why."""


def found() -> Path | None:
    """The system's browser."""
    programs = (shutil.which(program) for program in PROGRAMS)
    return next((Path(program) for program in programs if program is not None), None)


def install() -> None:
    """Install the system's package, quietly. Takes some 400 MB of disk."""
    apt_get = _apt_get()
    print(f"kshare: installing the system's package {PACKAGE}", file=sys.stderr, flush=True)
    # The update may fail because of a repository that has nothing to do with the package.
    _run([*apt_get, "update"])
    done = _run([*apt_get, "install", "--yes", "--no-install-recommends", PACKAGE])
    if done.returncode:
        raise InstallError(done.stderr.strip() or f"apt-get ended with code {done.returncode}")


def _apt_get() -> list[str]:
    """The command that may install packages."""
    if shutil.which("apt-get") is None:
        raise InstallError("this system has no apt-get")
    sudo = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    if sudo and (shutil.which("sudo") is None or _run([*sudo, "true"]).returncode):
        raise InstallError("only root may install packages, and sudo is missing or asks for a password")
    quiet = ["-qq", "-o", "Dpkg::Use-Pty=0", "-o", f"DPkg::Lock::Timeout={_LOCK_S}"]
    return [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", *quiet]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        check=False,
        timeout=_DEADLINE_S,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def main() -> int:
    argparse.ArgumentParser(prog="python -m tools.chromium", description=__doc__).parse_args()
    if found() is None:
        try:
            install()
        except (OSError, InstallError, subprocess.SubprocessError) as problem:
            print(f"{PACKAGE} can't be installed: {problem}\n{MISSING}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
