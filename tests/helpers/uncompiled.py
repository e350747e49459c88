"""The record decoder twice: as compiled, and as the plain Python that a machine without a C compiler runs.

Where there is a C compiler the compiled one must be there too: tests that ask for it fail, they aren't left out. Where
there is none it isn't among `IMPLEMENTATIONS`.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import kshare.protocol

_MODULES = ("record", "record_loop", "records", "record_columns")
_FOLDER = Path(kshare.protocol.__path__[0])


@dataclass(frozen=True)
class Decoder:
    """One implementation's modules; `Any`, since what they are differs only in how they run."""

    records: Any
    record_columns: Any


def _has_compiler() -> bool:
    command = (sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(command) is not None


def is_compiled(module: ModuleType) -> bool:
    return not str(module.__file__).endswith(".py")


IMPLEMENTATIONS = ["uncompiled", "compiled"] if _has_compiler() else ["uncompiled"]


@cache
def decoder(implementation: str) -> Decoder:
    if implementation == "uncompiled":
        with _sources_only():
            return _import()
    loaded = _import()
    if not is_compiled(loaded.records):
        raise AssertionError(
            "there is a C compiler, but records are not compiled: run pip install -e . again"
        )
    return loaded


def _import() -> Decoder:
    modules = {name: import_module(f"kshare.protocol.{name}") for name in _MODULES}
    return Decoder(modules["records"], modules["record_columns"])


class _SourceFinder(MetaPathFinder):
    """Finds the `.py` of the modules above, even with a compiled file beside it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if package != "kshare.protocol" or name not in _MODULES:
            return None
        return spec_from_file_location(fullname, _FOLDER / f"{name}.py")


@contextmanager
def _sources_only() -> Iterator[None]:
    """What is imported within stays among itself: afterwards everyone else's modules are back in their places."""
    _import()
    names = [f"kshare.protocol.{name}" for name in _MODULES]
    kept = {name: sys.modules.pop(name) for name in names}
    finder = _SourceFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        sys.modules.update(kept)
        for name, module in kept.items():
            setattr(kshare.protocol, name.rpartition(".")[2], module)
