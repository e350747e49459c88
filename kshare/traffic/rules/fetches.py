"""Fetches: from the right broker, for the right partitions, of a sensible size."""

from __future__ import annotations

from kshare.protocol.error_codes import ErrorCode
from kshare.traffic.findings import LinterRule, Severity, Violation, Violations
from kshare.traffic.group_tracker import ShareEvent
from kshare.traffic.members import ObservedMember, ObservedSession
from kshare.traffic.names import Names
from kshare.traffic.share_exchange import CLOSING, Partition

_SMALL, _SMALL_IN_A_ROW = 10, 20
_SHORT_WAIT_MS, _EMPTY_IN_A_ROW = 10, 50
_PATIENCE_S = 10.0
"""How long a partition may stay in the session after it is no longer assigned. The next fetch should remove it."""
_STALE_FETCHES = 3
_MOVED_IN_A_ROW = 3
_MOVED = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}
_GONE = {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


class _InARow(LinterRule):
    """Counts, for each key, how often something happened in a row."""

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._counts: dict[object, int] = {}

    def count(self, key: object, is_so: bool) -> int:
        if not is_so:
            self._counts.pop(key, None)
            return 0
        count = self._counts[key] = self._counts.get(key, 0) + 1
        return count

    def is_idle(self, event: ShareEvent) -> bool:
        """For rules about errors: there are no errors now, and none are being counted."""
        return not event.share.errors and not self._counts


class SmallFetches(_InARow):
    name = "small-fetches"
    level = Severity.HARMFUL
    sees_all_exchanges = True
    about = (
        "Each fetch asks for a few records only, and costs a round trip and an acknowledgement. More records were "
        "available: raise max.poll.records (max_records), or use several consumers."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        fetch = event.share.fetch
        if (
            fetch is None
            or fetch.is_renew_ack
            or event.share.epoch == CLOSING
            or not event.share.has_response
        ):
            return ()
        acquired = sum([records.size for records in event.share.acquired])
        is_small = 0 < fetch.max_records <= _SMALL <= max(acquired, fetch.max_records)
        is_full = acquired >= fetch.max_records
        in_a_row = self.count(event.member, is_small and is_full)
        if in_a_row < _SMALL_IN_A_ROW:
            return ()
        text = f"{in_a_row} fetches in a row of at most {fetch.max_records} records, all full"
        return (Violation(event.member, text, "all"),)


class BusyPolling(_InARow):
    name = "busy-polling"
    level = Severity.HARMFUL
    sees_all_exchanges = True
    about = (
        "Fetches that don't wait repeatedly return nothing, which is useless work for the broker. Let the "
        "broker wait for records (fetch.max.wait.ms)."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        fetch = event.share.fetch
        if fetch is None or fetch.is_renew_ack or not event.share.has_response:
            return ()
        is_so = (
            fetch.max_wait_ms < _SHORT_WAIT_MS and not event.share.acquired and not event.share.acknowledged
        )
        in_a_row = self.count(event.member, is_so)
        if in_a_row < _EMPTY_IN_A_ROW:
            return ()
        text = f"{in_a_row} empty fetches in a row that wait at most {fetch.max_wait_ms} ms"
        return (Violation(event.member, text, "all"),)


class NeverForgotten(LinterRule):
    name = "never-forgotten"
    level = Severity.HARMFUL
    sees_all_exchanges = True
    about = (
        "A partition stays in the session although it isn't assigned to the member: the broker keeps delivering its "
        "records to it. List it in ForgottenTopicsData. Partitions that were listed only for their acknowledgements "
        "are in the session, too."
    )

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._stale: dict[tuple[ObservedMember, str, Partition], int] = {}

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        member, session = event.member, event.session
        if event.share.fetch is None or session is None or member.assignment is None:
            return ()
        if not self._stale and session.partitions.keys() <= member.assignment:
            return ()
        return self._stale_ones(event, member, session, member.assignment)

    def _stale_ones(
        self,
        event: ShareEvent,
        member: ObservedMember,
        session: ObservedSession,
        assignment: frozenset[Partition],
    ) -> Violations:
        now = event.share.exchange.ended_at
        for partition, since in session.partitions.items():
            key = (member, session.server, partition)
            if partition in assignment:
                self._stale.pop(key, None)
                continue
            self._stale[key] = self._stale.get(key, 0) + 1
            began = max(since, member.assigned_at)
            if self._stale[key] > _STALE_FETCHES and now - began > _PATIENCE_S:
                yield Violation(
                    member,
                    f"{self.where(partition)} is still fetched from {self.names.node(session.server)}, "
                    f"{now - began:.0f} s after it was no longer assigned",
                    partition,
                )


class NotTheLeader(_InARow):
    name = "not-the-leader"
    level = Severity.HARMFUL
    sees_all_exchanges = True
    about = (
        "Another broker leads the partition, as each response says. Refresh metadata, or use CurrentLeader and "
        "NodeEndpoints of the response, and remove the partition from this session."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        return () if event.share.fetch is None or self.is_idle(event) else self._moved_ones(event)

    def _moved_ones(self, event: ShareEvent) -> Violations:
        moved = {error.partition for error in event.share.errors if error.code in _MOVED}
        for partition in {*event.share.named, *moved}:
            key = (event.member, event.share.exchange.connection.server, partition)
            if self.count(key, partition in moved) >= _MOVED_IN_A_ROW:
                yield Violation(
                    event.member,
                    f"{self.where(partition)} fetched {self._counts[key]} times from "
                    f"{self.names.node(key[1])}, which doesn't lead it",
                    partition,
                )


class NoSuchTopic(_InARow):
    name = "no-such-topic"
    level = Severity.HARMFUL
    sees_all_exchanges = True
    about = (
        "The broker doesn't know the topic id. Right after a topic is created, this passes; later it means that the "
        "topic was deleted, or recreated with another id: refresh metadata, and remove it from the session."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        return () if event.share.fetch is None or self.is_idle(event) else self._missing_ones(event)

    def _missing_ones(self, event: ShareEvent) -> Violations:
        missing = {error.partition for error in event.share.errors if error.code in _GONE}
        for partition in {*event.share.named, *missing}:
            key = (event.member, partition)
            if self.count(key, partition in missing) >= _EMPTY_IN_A_ROW // 5:
                yield Violation(
                    event.member,
                    f"{self.where(partition)} fetched {self._counts[key]} times without success",
                    partition,
                )


RULES = (SmallFetches, BusyPolling, NeverForgotten, NotTheLeader, NoSuchTopic)
