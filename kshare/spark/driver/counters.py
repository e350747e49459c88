"""The numbers that Spark shows in a query's progress."""

from __future__ import annotations

from collections.abc import Iterable

from kshare.admin.results import PartitionOffset
from kshare.engine.events import Acknowledged, Acquired, Event, LeaseLost, LeaseRenewed, SessionEnded
from kshare.spark.ranges import Token


class QueryCounters:
    """The counters of one process, in records."""

    def __init__(self) -> None:
        self.acquired = 0
        self.starts: dict[tuple[str, int], int] = {}
        """The group's start offsets, by topic and partition, as last requested."""
        self.finished: set[tuple[str, int]] = set()
        """Topics and partitions without lag when last requested. For these, the reported start offset may be too low:
        brokers update it only with the group's next acknowledgement in the partition."""
        self._emitted = 0
        self._redelivered = 0
        self._accepted = 0
        self._released = 0
        self._rejected = 0
        self._renewed = 0
        self._lost = 0
        self._sessions_ended = 0
        self._lag: int | None = None
        self.lock_limit: int | None = None
        """How many records of a partition the group may lock, as last requested."""
        self.partitions = 0

    def observe(self, event: Event) -> None:
        match event:
            case Acquired(_, _, records, delivery_count):
                self.acquired += records
                self._redelivered += records if delivery_count > 1 else 0
            case Acknowledged() if event.error is None:
                counts = event.counts()
                self._accepted += counts.get("accept", 0)
                self._released += counts.get("release", 0)
                self._rejected += counts.get("reject", 0)
            case LeaseRenewed(_, _, records):
                self._renewed += records
            case LeaseLost(_, _, records, _):
                self._lost += records
            case SessionEnded():
                self._sessions_ended += 1

    def planned(self, token: Token) -> None:
        self._emitted += sum(map(len, token.acquired))

    def on_group_offsets(self, group_offsets: Iterable[PartitionOffset]) -> dict[tuple[str, int], int]:
        """Store the offsets that the group's coordinator reports. Brokers before Kafka 4.2 report no lag.

        Returns the earlier start offsets of partitions whose start offset is lower now, or not there any more.
        """
        rows = list(group_offsets)
        before = self.starts
        self.starts = {
            (row.topic, row.partition): row.start_offset for row in rows if row.start_offset is not None
        }
        self.finished = {(row.topic, row.partition) for row in rows if row.lag == 0}
        self.partitions = len(rows)
        lags = [row.lag for row in rows if row.lag is not None]
        self._lag = sum(lags) if lags else None
        asked = {(row.topic, row.partition) for row in rows}
        return {
            where: start
            for where, start in before.items()
            if where in asked and self.starts.get(where, -1) < start
        }

    def lock_use(self, held: int) -> float | None:
        """The fraction of the records that the group may lock that this query holds; None if the limit is unknown."""
        most = (self.lock_limit or 0) * self.partitions
        return round(held / most, 4) if most else None

    def readings(self) -> dict[str, int | None]:
        return {
            "acquired": self.acquired,
            "emitted": self._emitted,
            "redelivered": self._redelivered,
            "accepted": self._accepted,
            "released": self._released,
            "rejected": self._rejected,
            "leasesRenewed": self._renewed,
            "leasesLost": self._lost,
            "sessionsEnded": self._sessions_ended,
            "lag": self._lag,
        }
