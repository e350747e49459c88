"""Releases the memory of mapped files: of a broker's segment, as much is kept as its largest batch needs."""

from __future__ import annotations

import mmap

_LET_GO_EVERY = 16 * 1024 * 1024
"""A multiple of the page size of every system."""


def let_go(data: memoryview, start: int, end: int) -> None:
    """Nothing before `end` will be read again. Now and then, this releases the memory of a mapped file up to there."""
    done = min(end, len(data)) // _LET_GO_EVERY * _LET_GO_EVERY
    if start < done and isinstance(data.obj, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.obj.madvise(mmap.MADV_DONTNEED, 0, done)
