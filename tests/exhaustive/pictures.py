"""What is in an object, as a value that can be compared: for fingerprints that leave out nothing by mistake."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, SimpleNamespace
from typing import Any

_PLAIN = (int, float, str, bytes, bool, type(None), Enum, type)
_THAWED = SimpleNamespace(frozen=False)
_CODE = (FunctionType, MethodType, BuiltinFunctionType)


def picture(value: Any, without: Collection[str] = ()) -> Hashable:
    """`without`: names of attributes that make no difference."""
    return _picture(value, frozenset(without), {})


def _picture(value: Any, without: frozenset[str], seen: dict[int, int]) -> Hashable:
    if isinstance(value, _PLAIN):
        plain: Hashable = value
        return plain
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, _CODE):
        return "code"
    if isinstance(value, tuple):
        return tuple(_picture(part, without, seen) for part in value)
    if getattr(type(value), "__dataclass_params__", _THAWED).frozen:
        whole: Hashable = value  # compared as it is
        return whole
    known = seen.get(id(value))
    if known is not None:
        return ("again", known)
    seen[id(value)] = len(seen)
    if isinstance(value, list | deque):
        return ("list", *(_picture(part, without, seen) for part in value))
    if isinstance(value, Mapping):
        return (
            "map",
            *((_picture(key, without, seen), _picture(part, without, seen)) for key, part in value.items()),
        )
    if isinstance(value, set | frozenset):
        return frozenset(_picture(part, without, seen) for part in value)
    names = [*getattr(value, "__dict__", ())] or [
        name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())
    ]
    return (
        type(value).__name__,
        *(
            (name, _picture(getattr(value, name), without, seen))
            for name in names
            if name not in without and hasattr(value, name)
        ),
    )
