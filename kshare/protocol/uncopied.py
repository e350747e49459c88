"""Prevents copying and pickling of objects that refer to shared memory, or to locks of a session.

Otherwise compiled classes would be pickled with what Cython makes of their pointers, and others by their slots.
"""

from __future__ import annotations

from typing import NoReturn


def refuse_copy(refused: object, instead: str) -> NoReturn:
    """For `__reduce__`, which `copy` and `pickle` call; `instead` says what to do instead."""
    raise TypeError(f"{type(refused).__name__} objects can't be copied or pickled: {instead}")
