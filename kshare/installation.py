"""The installation: version, Python, and whether the performance-critical modules are compiled, and used.

They are compiled if a C compiler is available when the package is built; all of them or none. Without them everything
works, but reading records takes up to twelve times as long.
"""

from __future__ import annotations

import json
import logging
import platform
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, distribution
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kshare import fast

log = logging.getLogger("kshare")

SLOW = "kshare's modules are not compiled: reading records takes up to 12 times as long"
SWITCHED_OFF = (
    f"kshare's fast paths are switched off ({fast.SWITCH}=0): reading records takes many times as long"
)
_REINSTALL = "pip install --force-reinstall --no-deps --no-cache-dir"
"""Pip's cache may hold a wheel that was built without a compiler."""

_COMPILED = "kshare.protocol.record"

_SOURCES = Path(__file__).resolve().parents[1]
"""The folder from which this kshare was imported."""

_has_warned = False


@cache
def version() -> str:
    """Read once: to look it up takes milliseconds, and each new connection tells it to the broker."""
    try:
        return version_of("kshare")
    except PackageNotFoundError:  # sources on the path, and nothing installed
        return "unknown"


def is_compiled() -> bool:
    spec = find_spec(_COMPILED)
    return spec is not None and spec.origin is not None and not spec.origin.endswith(".py")


def why_slow() -> str:
    """Why reading is slow; empty if it isn't. With the fast paths switched off, it doesn't matter what is compiled."""
    if not fast.IS_ON:
        return SWITCHED_OFF
    return "" if is_compiled() else SLOW


def advice() -> str:
    """What to do if no compiled module is used, before running the command that `mend` returns."""
    if not fast.IS_ON:
        return "unless you are debugging, unset it"
    if installed := _shadowed():
        return (
            f"Python imports the sources in {_SOURCES} instead of the kshare that is installed in {installed}, because "
            "the program is there: put it into another folder, or let Python not look there"
        )
    python = ".".join(platform.python_version_tuple()[:2])
    return (
        f"install a C compiler and the headers of Python {python}, then reinstall kshare without pip's cache"
    )


def mend() -> str:
    """The command that reinstalls kshare from where it was installed, or else from its sources or the package index."""
    if not fast.IS_ON:
        return f"unset {fast.SWITCH}"
    if _shadowed():
        return shlex.join(["python", "-P", *sys.orig_argv[1:]])
    folder, is_editable = _source()
    if folder is None and (_SOURCES / "pyproject.toml").is_file():
        folder = str(_SOURCES)
    if folder is None:
        return f"{_REINSTALL} --no-binary kshare kshare"
    return f"{_REINSTALL} {'-e ' if is_editable else ''}{shlex.quote(folder)}"


def _shadowed() -> str | None:
    """Where another kshare is installed, if this one is only found first: in a clone, beside the program."""
    others = [folder for folder in sys.path if Path(folder or ".").resolve() != _SOURCES]
    found = PathFinder.find_spec("kshare", others)
    return str(Path(found.origin).parents[1]) if found is not None and found.origin else None


def _source() -> tuple[str | None, bool]:
    """The folder that it was installed from, if any, and whether it is editable (`pip install -e`)."""
    try:
        direct_url = distribution("kshare").read_text("direct_url.json")
        source = json.loads(direct_url) if direct_url else {}
    except (PackageNotFoundError, ValueError):
        return None, False
    url, directory_info = urlsplit(source.get("url", "")), source.get("dir_info")
    if url.scheme != "file" or directory_info is None:
        return None, False
    return unquote(url.path), bool(directory_info.get("editable"))


def describe_installation() -> str:
    """The text of `kshare --version`."""
    slow = why_slow()
    what = "compiled" if not slow else "switched off" if slow == SWITCHED_OFF else "not compiled"
    warning = f"\n{slow}\n{advice()}:\n{mend()}" if slow else ""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"kshare {version()}, {python} on {platform.system()} {platform.machine()}, {what}{warning}"


def warn_if_slow() -> None:
    """Logs a warning, once per process, if no compiled module is used."""
    global _has_warned
    if not _has_warned:
        _has_warned = True
        slow = why_slow()
        if slow:
            log.warning("%s; %s: %s", slow, advice(), mend())


@contextmanager
def extra(name: str, module: str) -> Iterator[None]:
    """Around the imports from the packages of an extra: the error says for which module it is needed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{module} needs {error.name}: pip install 'kshare[{name}]' (in a clone: '.[{name}]')",
            name=error.name,
        ) from None
