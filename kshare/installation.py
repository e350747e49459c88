"""What is installed: which version, on which Python, and whether its hot modules are compiled.

They are compiled where a C compiler is at hand when the package is built; all of them or none. Without, everything
works as well, and reading records takes up to twelve times as long.
"""

from __future__ import annotations

import logging
import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from importlib.util import find_spec

log = logging.getLogger("kshare")

SLOW = "kshare's modules are not compiled: reading records takes up to 12 times as long"
MEND = "pip install --force-reinstall --no-deps --no-cache-dir --no-binary kshare kshare"
"""Pip's cache may hold the wheel that was built without a compiler. In a clone of the repository the name is a dot."""

_COMPILED = "kshare.protocol.record"

_is_told = False


def version() -> str:
    try:
        return version_of("kshare")
    except PackageNotFoundError:  # sources on the path, and nothing installed
        return "unknown"


def is_compiled() -> bool:
    spec = find_spec(_COMPILED)
    return spec is not None and spec.origin is not None and not spec.origin.endswith(".py")


def advice() -> str:
    """What to do where nothing is compiled, before `MEND`."""
    python = ".".join(platform.python_version_tuple()[:2])
    return (
        f"install a C compiler and the headers of Python {python}, then reinstall kshare without pip's cache"
    )


def describe() -> str:
    """For `kshare --version`."""
    what = "compiled" if is_compiled() else f"not compiled\n{SLOW}\n{advice()}:\n{MEND}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"kshare {version()}, {python} on {platform.system()} {platform.machine()}, {what}"


def warn_if_slow() -> None:
    """One line in the log of each process that reads records by modules that aren't compiled."""
    global _is_told
    if not _is_told:
        _is_told = True
        if not is_compiled():
            log.warning("%s; %s: %s", SLOW, advice(), MEND)
