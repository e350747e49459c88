"""The namespace that groups of all kinds share.

Decides which kind a group id belongs to. Everything else is up to the implementation of that kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True, frozen=True)
class ListedGroup:
    """A group in the ListGroups response."""

    group_id: str
    state: str
    """"Empty", "Stable", ..."""
    kind: str
    """"classic", "consumer" or "share"."""
    protocol_type: str
    """"consumer" for plain consumers, "share" for share groups."""


class GroupKind(Protocol):
    """One kind of groups."""

    def has(self, group_id: str) -> bool: ...

    def listed(self) -> Iterable[ListedGroup]: ...

    def delete(self, group_id: str) -> None:
        """Delete an existing group of this kind. Raises RequestError, for example NON_EMPTY_GROUP."""

    def give_way(self, group_id: str) -> bool:
        """Forget an empty group, but not its offsets, so that it can become one of another kind.

        False if it isn't empty, or if groups of this kind never change it.
        """


class Groups:
    """All groups, by kind."""

    def __init__(self) -> None:
        self.kinds: list[GroupKind] = []

    def kind_of(self, group_id: str) -> GroupKind | None:
        return next((kind for kind in self.kinds if kind.has(group_id)), None)

    def listed(self) -> list[ListedGroup]:
        return [group for kind in self.kinds for group in kind.listed()]
