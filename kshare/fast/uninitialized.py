"""Uninitialized memory for a socket to write into: clearing it first takes a tenth of the time to read large responses.

Callers must write all of it before it is read.

Gains: 1 MiB in 0.4 µs instead of 27, which saves a tenth of the time to read large responses.
To take it out: `memoryview(bytearray(size))`.
"""

from __future__ import annotations

import ctypes
from typing import Any

from kshare import fast

_take: Any = getattr(getattr(ctypes, "pythonapi", None), "PyByteArray_FromStringAndSize", None)
"""Only available in CPython."""
if _take is not None:
    _take.restype, _take.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_ssize_t)


def uninitialized(size: int) -> memoryview:
    return memoryview(bytearray(size) if _take is None or not fast.IS_ON else _take(None, size))
