"""Loads compiled modules, such as the record decoder, a second time as the plain Python that they fall back to.

If there is a C compiler, the compiled modules must exist: tests of them fail otherwise, instead of being left out.
Without a compiler, or if optimizations are switched off, `IMPLEMENTATIONS` doesn't contain them.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import kshare
from kshare import fast

_MODULES = ("record", "record_loop", "records", "record_columns")
_ROOT = Path(kshare.__path__[0]).parent


@dataclass(frozen=True)
class Decoder:
    """The modules of one implementation. `Any`, because both have the same interface."""

    records: Any
    record_columns: Any


def _has_compiler() -> bool:
    command = (sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(command) is not None


def is_compiled(module: ModuleType) -> bool:
    return not str(module.__file__).endswith(".py")


IMPLEMENTATIONS = ["uncompiled", "compiled"] if _has_compiler() and fast.IS_ON else ["uncompiled"]


@cache
def decoder(implementation: str) -> Decoder:
    if implementation == "uncompiled":
        modules = from_source(*(f"kshare.protocol.{name}" for name in _MODULES))
        return Decoder(modules["kshare.protocol.records"], modules["kshare.protocol.record_columns"])
    loaded = {name: import_module(f"kshare.protocol.{name}") for name in _MODULES}
    if not is_compiled(loaded["records"]):
        raise AssertionError(
            "there is a C compiler, but records are not compiled: run pip install -e . again"
        )
    return Decoder(loaded["records"], loaded["record_columns"])


def from_source(*names: str) -> dict[str, ModuleType]:
    """Import these modules from their `.py`, so that they import each other. All other modules keep the old ones."""
    kept = {name: import_module(name) for name in names}
    for name in names:
        del sys.modules[name]
    finder = SourceFinder(names)
    sys.meta_path.insert(0, finder)
    try:
        return {name: import_module(name) for name in names}
    finally:
        sys.meta_path.remove(finder)
        sys.modules.update(kept)
        for name, module in kept.items():
            package, _, own = name.rpartition(".")
            setattr(sys.modules[package], own, module)


class SourceFinder(MetaPathFinder):
    """Finds the `.py` of modules, even if there is a compiled file beside it."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._names:
            return None
        return spec_from_file_location(fullname, _ROOT.joinpath(*fullname.split(".")).with_suffix(".py"))
