"""Why some objects are neither copied nor pickled: they are places in shared memory, or locks that a session holds.

Compiled classes would be pickled by what Cython makes of their pointers, plain ones by their slots. Both refuse here.
"""

from __future__ import annotations

from typing import NoReturn


def refuse_copy(one: object, instead: str) -> NoReturn:
    """For `__reduce__`, which `copy` and `pickle` ask; `instead` says what to do."""
    raise TypeError(f"{type(one).__name__} objects can't be copied or pickled: {instead}")
