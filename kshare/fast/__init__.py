"""Optimizations for records, one per module, and the switch that turns them off: `KSHARE_FAST=0` in the environment.

The switch is for debugging, to find out whether an optimization causes a problem. It is read once, when kshare is first
imported. If it is off, all of kshare runs from its `.py` files, even if compiled ones are next to them: no C body is
inlined, no slot patched, no record reused, the clock is the ordinary one, and each record takes a coroutine.

docs/architecture.md lists the optimizations: what each gains, and how to take it out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

SWITCH = "KSHARE_FAST"
IS_ON = os.environ.get(SWITCH) != "0"


class SourcesOnly(MetaPathFinder):
    """Finds kshare's modules like Python's own finder, but ignores compiled ones."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("kshare."):
            return None
        for folder in path or ():
            spec = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(fullname)
            if spec is not None and spec.loader is not None:
                return spec
        return None


if not IS_ON:
    # Before Python's own finder, but after any that others have put before that.
    sys.meta_path.insert(sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0, SourcesOnly())
