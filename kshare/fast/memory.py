"""The few things that compiled code does differently: with bytes read, write and copy them, with objects count users.

Everything compiled is plain Python with a `.pxd` beside it that gives C types to what the `.py` says. These functions
are the one exception: `memory.pxd` has a C body for each, which compiled callers get inlined; here are the bodies that
everyone else gets. Code above them reads the same either way. No bounds are checked here: callers have done so.

Why augmenting `.pxd` files and not `import cython`: the sources keep no trace of Cython, so neither running nor reading
them needs it. Why not typed memoryviews: slicing bytes out of one makes two Python objects, a pointer makes only the
bytes.
"""

from __future__ import annotations

import re
from functools import lru_cache

_RUNOUT = bytes(256)
_WORD = 2**64
_HALF_WORD = 2**63


def readable(view: memoryview) -> bytes:
    """The quickest thing to index and slice: a pointer when compiled (the view must be kept alive), else a copy.

    The copy has zeros behind it, in which a reader that runs over the end comes to rest; the pointer hasn't.
    """
    return b"".join((view, _RUNOUT))


def writable(buffer: bytearray) -> bytearray:
    """The quickest thing to write single bytes into: a pointer when compiled (the buffer must be kept alive)."""
    return buffer


def int32s(buffer: bytearray) -> memoryview:
    """The buffer as native 32-bit integers."""
    return memoryview(buffer).cast("i")


def int64s(buffer: bytearray) -> memoryview:
    """The buffer as native 64-bit integers."""
    return memoryview(buffer).cast("q")


def grown(buffer: bytearray, size: int) -> bytearray:
    """A longer buffer with the same beginning: a new one, or, compiled, the same, whose old addresses are void.

    What is new in it is not to be read before it is written.
    """
    return buffer + bytes(size - len(buffer))


def copy(target: bytearray, at: int, source: bytes, start: int, size: int) -> None:
    """Copies `size` bytes of the source to `target[at:]`."""
    target[at : at + size] = source[start : start + size]


def clear_bit(bits: bytearray, index: int) -> None:
    """Clears a bit as Arrow counts them: the lowest of a byte first."""
    bits[index >> 3] &= ~(1 << (index & 7))


def is_ascii(source: bytes, start: int, stop: int) -> bool:
    return source[start:stop].isascii()


def count_between(buffer: bytearray, start: int, stop: int, low: int, high: int) -> int:
    """How many bytes of that part are no lower and no higher."""
    return sum(buffer.count(value, start, stop) for value in range(low, high + 1))


def runs_between(buffer: bytearray, start: int, stop: int, low: int, high: int) -> list[tuple[int, int]]:
    """The stretches of that part whose bytes are no lower and no higher: where they start and stop."""
    return [match.span() for match in _run(low, high).finditer(buffer, start, stop)]


@lru_cache
def _run(low: int, high: int) -> re.Pattern[bytes]:
    return re.compile(b"[" + re.escape(bytes([low])) + b"-" + re.escape(bytes([high])) + b"]+")


def wrapped(number: int) -> int:
    """The number that Java's longs would hold; compiled, sums are that already."""
    return (number + _HALF_WORD) % _WORD - _HALF_WORD


def kept(view: memoryview) -> memoryview:
    """What keeps the bytes alive: the view itself.

    Compiled it passes for `bytes`, so that Cython knows it can't be part of a cycle and leaves records out of garbage
    collection: they come and go by the thousand. Nothing but keeping may be done with it.
    """
    return view


def is_unshared(one: object) -> bool:
    """Whether nobody knows it but the caller's variable and the attribute that it came from. Compiled code can tell."""
    return False
