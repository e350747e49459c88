"""The user's folder for what is downloaded or built once and serves all checkouts."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def folder() -> Path:
    """In $XDG_CACHE_HOME or ~/.cache. HOME may be unset."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    if chosen:
        return Path(chosen) / "kshare"
    home = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    return Path(home) / ".cache" / "kshare"


def built(home: Path, build: Callable[[Path], object]) -> Path:
    """This folder. Builds it if necessary, in another one that gets its name at the end, so that it is never half done.

    Another process may build it at the same time: the first one to be done wins.
    """
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
        try:
            build(scratch)
            scratch.rename(home)
        except OSError:
            if not home.is_dir():
                raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return home
