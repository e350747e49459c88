"""For how long single records have pinned more of an in-flight window than they may. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kshare.admin.results import PartitionProgress

_Place = tuple[str, int]


class Pinning:
    """`most`: how many offsets of a window a record may pin."""

    def __init__(self, most: int) -> None:
        self.longest_s = 0.0
        self.longest = "none"
        """Which offset it was."""
        self._most = most
        self._since: dict[_Place, tuple[int, float]] = {}

    def look(self, rows: Iterable[PartitionProgress], now: float) -> None:
        before, self._since = self._since, {}
        for row in rows:
            start = row.start_offset
            if start is None or (row.window_end or 0) - start <= self._most:
                continue
            place = (row.topic, row.partition)
            known = before.get(place)
            since = known[1] if known is not None and known[0] == start else now
            self._since[place] = start, since
            if now - since > self.longest_s:
                self.longest_s, self.longest = now - since, f"{row.topic}[{row.partition}]@{start}"
