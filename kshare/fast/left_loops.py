"""Iterators that detect that their loop was left: Python doesn't report a `break`, but deletes the iterator then.

This isn't for speed, so the switch leaves it on. `__del__` may be called in any thread, late (in a reference cycle), or
never: nothing depends on the moment, since records are released when the consumer is closed, at the latest. Compiled
through `left_loops.pxd`.

Gains: a loop needs no `async with` around it, and no async generator, which users would have to close on trio.
To take it out: make users close loops.
"""

from __future__ import annotations

import sys
from typing import NoReturn


class Loop:
    """The base class of iterators that users loop over."""

    __slots__ = ()
    _is_finalizing = staticmethod(sys.is_finalizing)
    """In the class, because globals of modules are None when the interpreter ends."""

    def _on_left(self) -> None:
        """Called when nothing refers to the iterator any more, so no further item will be requested."""
        raise NotImplementedError

    def __reduce__(self) -> NoReturn:
        """A copy would have nothing in it, and fail when it is left."""
        raise TypeError(
            f"{type(self).__name__} objects can't be copied or pickled: loop over the consumer again"
        )

    def __del__(self) -> None:
        if not self._is_finalizing():
            self._on_left()
