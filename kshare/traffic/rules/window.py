"""The in-flight window of a share-partition: one record that stays locked stops it for the whole group."""

from __future__ import annotations

from dataclasses import dataclass

from kshare.traffic.findings import LinterRule, Severity, Violation, Violations
from kshare.traffic.group_tracker import GroupTracker, ShareEvent
from kshare.traffic.members import ObservedLock, ObservedMember
from kshare.traffic.names import Names
from kshare.traffic.share_exchange import Partition

_LIMIT = 2000
"""Kafka's default. The group's own setting appears in no request or response of its members."""
_HELD_S, _QUIET_S = 3.0, 1.0
"""The window of a busy group may be full for moments. If it is pinned, nothing new is delivered."""


@dataclass(slots=True)
class _Reach:
    """The last offset of a partition that a group has acquired, and when."""

    last: int
    at: float


class PinnedWindow(LinterRule):
    name = "pinned-window"
    level = Severity.HARMFUL
    sees_all_exchanges = True
    about = (
        "The in-flight window is full: from the first record that isn't settled to the last that was delivered it "
        "spans share.partition.max.record.locks offsets (2,000 by default). Nothing new is delivered from the "
        "partition until that first record is settled: accept or reject it, release it for others, or end the process "
        "that holds it. Limit how long one record may be processed; raising the setting only buys time."
    )

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._reached: dict[tuple[str, Partition], _Reach] = {}

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        share = event.share
        for partition, _, last, _ in share.acquired:
            reach = self._reached.get((share.group, partition))
            if reach is None:
                self._reached[share.group, partition] = _Reach(last, share.exchange.ended_at)
            else:
                reach.last = max(reach.last, last)
                reach.at = share.exchange.ended_at
        return ()

    def on_time(self, tracker: GroupTracker, now: float) -> Violations:
        first: dict[tuple[str, Partition], tuple[int, ObservedMember, ObservedLock]] = {}
        for member, session in tracker.sessions():
            for partition, held in session.held.items():
                piece = next((held_range for held_range in held if held_range.value.deadline >= now), None)
                key = (member.group, partition)
                if piece and (key not in first or piece.first < first[key][0]):
                    first[key] = (piece.first, member, piece.value)
        for (group, partition), (offset, member, lease) in first.items():
            reach = self._reached.get((group, partition))
            if reach is None or now - reach.at < _QUIET_S or now - lease.acquired_at < _HELD_S:
                continue
            span = reach.last - offset + 1
            if span >= _LIMIT:
                yield Violation(
                    member,
                    f"{self.where(partition)} offset {offset} held for {now - lease.acquired_at:.0f} s, "
                    f"{span} offsets in flight: nothing new is delivered",
                    partition,
                )


RULES = (PinnedWindow,)
