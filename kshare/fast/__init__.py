"""Tricks that make records cheap, one a module, and the switch that turns them off: `KSHARE_FAST=0` in the environment.

The switch is for debugging: is it a trick's fault? It is read once, when kshare is first imported. Switched off, all of
kshare runs from its `.py` files, though compiled ones lie beside them: so no C body is inlined, no slot patched, no
record recycled, and the clock is the ordinary one; each record comes through a coroutine of its own.

docs/architecture.md lists the tricks: what each gains, and how to take it out.
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
    """Finds kshare's modules as Python would, but for compiled ones."""

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
    # Before Python's own, and behind whatever somebody has put before that.
    sys.meta_path.insert(sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0, SourcesOnly())
