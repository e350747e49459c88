"""Numbers for values that are made of tuples and sets: equal values have the same number, others have not.

Two states of a system have most of what they are made of in common. With a number for each part, what is equal is kept
once, however many states have it.
"""

from __future__ import annotations

from collections.abc import Hashable


class Numbered:
    """All values that it was ever asked for."""

    def __init__(self) -> None:
        self._parts: dict[Hashable, int] = {}
        """Values that have no parts."""
        self._wholes: dict[Hashable, int] = {}
        """Tuples and sets, as the numbers of their parts."""

    def number_of(self, value: Hashable) -> int:
        if isinstance(value, tuple):
            return self._known(self._wholes, tuple([self.number_of(part) for part in value]))
        if isinstance(value, frozenset):
            return self._known(self._wholes, frozenset([self.number_of(part) for part in value]))
        return self._known(self._parts, value)

    def _known(self, numbers: dict[Hashable, int], value: Hashable) -> int:
        return numbers.setdefault(value, len(self._parts) + len(self._wholes))
