"""Checks whether a Python value fits a type of the schema format, for encoding errors and for JSON."""

from __future__ import annotations

from typing import Any

from kshare.protocol.primitives import MAX_STRING

_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
}


def problem(type_name: str, value: Any) -> str | None:
    """Why a value that isn't null can't be encoded as this primitive; None if it can."""
    if type_name in _RANGES:
        low, high = _RANGES[type_name]
        if not isinstance(value, int):
            return f"{_shown(value)} is not of type {type_name}"
        return None if low <= value <= high else f"{value} is outside {type_name} ({low} to {high})"
    if type_name == "bool":
        return None if isinstance(value, bool | int) else f"{_shown(value)} is not a bool"
    if type_name == "float64":
        return None if isinstance(value, float | int) else f"{_shown(value)} is not a number"
    if type_name == "string":
        return _string_problem(value)
    if not isinstance(value, bytes | bytearray | memoryview):
        return f"{_shown(value)} is not bytes"
    if type_name == "uuid" and len(value) != 16:
        return f"a uuid has 16 bytes, not {len(value)}"
    return None


def _string_problem(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"{_shown(value)} is not a string"
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        return f"{_shown(value)} contains a lone surrogate, which UTF-8 can't encode"
    return None if length <= MAX_STRING else f"{length} bytes, but a string has at most {MAX_STRING}"


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:37] + '...'} ({type(value).__name__})"
