"""Which replica of a partition to read: the leader, or a follower in the reader's rack that the leader names (KIP-392).

    event                                   | what is read from then on
    ----------------------------------------+----------------------------------------------------------------
    the leader names a follower             | the follower, for five minutes; then the leader is asked again
    the follower fails, or is behind        | the leader, for half a minute, without telling it the rack

Decides this for one reader. Sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable

LogPartition = tuple[bytes, int]
"""Topic id and partition."""

PREFERRED_S = 300.0
"""As long as Java's consumer keeps to a follower by default."""
AVOIDED_S = 30.0
"""The leader would name the same follower again at once."""


class ReadReplicas:
    """Without a rack, it is always the leader."""

    def __init__(self, rack: str | None, clock: Callable[[], float]) -> None:
        self._rack = rack or ""
        self._clock = clock
        self._followers: dict[LogPartition, tuple[int, float]] = {}
        """Node ids, and until when they are preferred."""
        self._avoided: dict[LogPartition, float] = {}

    def follower(self, where: LogPartition) -> int | None:
        """The follower to read; None for the leader."""
        node, until = self._followers.get(where, (-1, 0.0))
        return node if self._clock() < until else None

    def rack(self, where: LogPartition) -> str:
        """The rack to tell the leader: empty if it shall return records rather than name a follower."""
        return "" if self._clock() < self._avoided.get(where, 0.0) else self._rack

    def prefer(self, where: LogPartition, node: int) -> None:
        self._followers[where] = (node, self._clock() + PREFERRED_S)

    def avoid_follower(self, where: LogPartition) -> None:
        self._followers.pop(where, None)
        self._avoided[where] = self._clock() + AVOIDED_S
