"""Reads, writes and copies bytes through pointers, where Python would create an object for each.

Gains: a record is read and handed out in 22 ns, instead of 1.8 µs in plain Python.
To take it out: replace each call with the function's Python body, and delete the `.pxd` files of the callers.

Compiled modules are plain Python with a `.pxd` file next to them that declares C types. The functions of this package
are the exception: their `.pxd` has a C body for each, which is inlined into compiled callers; other callers use the
bodies in the `.py`. Calling code is the same for both. No bounds are checked here: callers must do that.

Why `.pxd` files and not `import cython`: so neither running nor reading the sources needs Cython. Why not typed
memoryviews: slicing bytes out of one creates two Python objects, a pointer creates only the bytes.
"""

from __future__ import annotations

_RUNOUT = bytes(256)
_WORD = 2**64
_HALF_WORD = 2**63


def readable(view: memoryview) -> bytes:
    """The fastest type to index and slice: if compiled, a pointer (keep the view alive), otherwise a copy.

    The copy is followed by zeros, for readers that run over the end; the pointer isn't.
    """
    return b"".join((view, _RUNOUT))


def writable(buffer: bytearray) -> bytearray:
    """The fastest type to write single bytes into: a pointer if compiled (keep the buffer alive)."""
    return buffer


def int32s(buffer: bytearray) -> memoryview:
    """The buffer as native 32-bit integers."""
    return memoryview(buffer).cast("i")


def int64s(buffer: bytearray) -> memoryview:
    """The buffer as native 64-bit integers."""
    return memoryview(buffer).cast("q")


def grown(buffer: bytearray, size: int) -> bytearray:
    """A longer buffer with the same beginning: a new one, or, if compiled, the same one with a new address.

    Don't read the new part before writing it.
    """
    return buffer + bytes(size - len(buffer))


def copy(target: bytearray, at: int, source: bytes, start: int, size: int) -> None:
    """Copies `size` bytes of the source to `target[at:]`."""
    target[at : at + size] = source[start : start + size]


def clear_bit(bits: bytearray, index: int) -> None:
    """Clears a bit, in Arrow's order: the lowest bit of a byte first."""
    bits[index >> 3] &= ~(1 << (index & 7))


def is_ascii(source: bytes, start: int, stop: int) -> bool:
    return source[start:stop].isascii()


def wrapped(number: int) -> int:
    """Wraps a number to 64 bits, as Java's longs do. If compiled, sums are wrapped already."""
    return (number + _HALF_WORD) % _WORD - _HALF_WORD
