"""Loops that notice when they are left: `async for` tells nobody of a `break`, but the loop's object goes then.

Gains: a loop needs no `async with` around it, and no async generator, which trio would have closed by hand.
To take it out: make users close loops. It is no matter of speed, so the switch leaves it on. Nothing depends on the
moment: where `__del__` comes late, as in a reference cycle, or never, records go back when the consumer is closed.
It may come in any thread. Compiled through `left_loops.pxd`.
"""

from __future__ import annotations


class Loop:
    """What users iterate over."""

    __slots__ = ()

    def _on_left(self) -> None:
        """Nobody refers to the loop any more: it won't be asked for the next."""
        raise NotImplementedError

    def __del__(self) -> None:
        self._on_left()
