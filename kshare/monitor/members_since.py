"""Since when share-partitions have had members. Brokers don't tell when one joined: it is known from readings. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kshare.admin.results import Member


class MembersSince:
    """Remembers from reading to reading. What was before the first one isn't known."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str, int], float] = {}

    def keep(self, groups: Collection[str]) -> None:
        """There are only these."""
        self._since = {place: since for place, since in self._since.items() if place[0] in groups}

    def look(self, members: Mapping[str, Sequence[Member]], now: float) -> None:
        """The members of these groups at this moment, in seconds since 1970. Of others, nothing new is known."""
        found = {
            (group, *place): self._since.get((group, *place), now)
            for group, some in members.items()
            for one in some
            for place in one.assignment
        }
        others = {place: since for place, since in self._since.items() if place[0] not in members}
        self._since = others | found

    def of(self, group: str, topic: str, partition: int) -> float | None:
        """Since when each reading has found a member that is assigned the partition; None if the last one hasn't."""
        return self._since.get((group, topic, partition))
