"""The user's folder for what is downloaded once and serves all checkouts."""

from __future__ import annotations

import os
import pwd
from pathlib import Path


def folder() -> Path:
    """In $XDG_CACHE_HOME or ~/.cache. HOME may be unset."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    if chosen:
        return Path(chosen) / "kshare"
    home = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    return Path(home) / ".cache" / "kshare"
