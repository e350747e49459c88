"""Acknowledgements: only of acquired records, well-formed, in time, to the right broker."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

from kshare.protocol.acknowledge_types import AcknowledgeType
from kshare.traffic.findings import LinterRule, Severity, Violation, Violations, spans_text
from kshare.traffic.group_tracker import ShareEvent
from kshare.traffic.members import AckStatus
from kshare.traffic.share_exchange import CLOSING, OPENING, TYPE_NAMES, Partition

_TYPES = [f"{kind} {word}" for kind, word in TYPE_NAMES.items()]


class _OfStanding(LinterRule):
    """Reports acknowledgements of records with one status."""

    status: ClassVar[AckStatus]
    saying: ClassVar[str]

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        if self.status not in event.statuses or event.share.epoch == OPENING:
            return  # another rule checks the opening request
        found: dict[Partition, list[tuple[int, int]]] = {}
        for ack in event.checked:
            if ack.status is self.status:
                found.setdefault(ack.partition, []).append((ack.first, ack.last))
        for partition, spans in found.items():
            text = f"{self.where(partition)} {spans_text(sorted(spans))} {self.saying}"
            yield Violation(event.member, text)


class NotAcquired(_OfStanding):
    name = "not-acquired"
    level = Severity.PROTOCOL_ERROR
    status = AckStatus.NEVER
    saying = "acknowledged, but never acquired by this member"
    about = (
        "Only records that the member acquired can be acknowledged. The broker refuses all of the partition's ranges "
        "in the request, including the valid ones."
    )


class AfterTheLock(_OfStanding):
    name = "after-the-lock"
    level = Severity.PROTOCOL_ERROR
    status = AckStatus.EXPIRED
    saying = "acknowledged after the lock had expired"
    about = (
        "The records are available to the group again and will be redelivered. Take fewer at a time, renew locks "
        "during processing, or raise share.record.lock.duration.ms."
    )


class SettledTwice(_OfStanding):
    name = "settled-twice"
    level = Severity.PROTOCOL_ERROR
    status = AckStatus.SETTLED
    saying = "acknowledged again"
    about = (
        "A record can be settled only once for each delivery. The second time, the broker refuses all of the "
        "partition's ranges in the request with INVALID_RECORD_STATE."
    )


class LostSession(_OfStanding):
    name = "lost-session"
    level = Severity.PROTOCOL_ERROR
    status = AckStatus.LOST
    saying = "acknowledged, although acquired in a session that has ended"
    about = (
        "When a session ends, all records acquired through it are released. Report acknowledgements that are still "
        "queued then as failed to the user; never send them in the next session."
    )


class WrongBroker(_OfStanding):
    name = "wrong-broker"
    level = Severity.PROTOCOL_ERROR
    status = AckStatus.ELSEWHERE
    saying = "acknowledged to a broker other than the one that delivered it"
    about = (
        "Acknowledgements go to the broker that delivered the records, in its session. If the leader has moved, they "
        "are lost: report them as failed to the user."
    )


class TypesLength(LinterRule):
    name = "types-length"
    level = Severity.PROTOCOL_ERROR
    about = (
        "A range has one type for all of its offsets, or one for each; the broker refuses anything else with "
        "INVALID_REQUEST."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        for ack in event.share.acknowledged:
            if not ack.is_well_formed:
                problem = f"{len(ack.types)} types for {ack.last - ack.first + 1} offsets"
                where = self.where(ack.partition)
                yield Violation(event.member, f"{where} {ack.first}-{ack.last}: {problem}")


class RangesOutOfOrder(LinterRule):
    name = "ranges-out-of-order"
    level = Severity.PROTOCOL_ERROR
    about = "The ranges of a partition must ascend and not overlap; otherwise the broker refuses all of them."

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        for before, ack in pairwise(event.share.acknowledged):
            if before.partition == ack.partition and ack.first <= before.last:
                where = self.where(ack.partition)
                text = f"{where} {ack.first}-{ack.last} after {before.first}-{before.last}"
                yield Violation(event.member, text)


class UnknownType(LinterRule):
    name = "unknown-type"
    level = Severity.PROTOCOL_ERROR
    about = f"The types are {', '.join(_TYPES[:-1])} and {_TYPES[-1]}; any other is INVALID_REQUEST."

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        for ack in event.share.acknowledged:
            unknown_types = sorted(set(ack.types) - TYPE_NAMES.keys())
            if unknown_types:
                where = self.where(ack.partition)
                yield Violation(event.member, f"{where} {ack.first}-{ack.last}: type {unknown_types[0]}")


class RenewUnsaid(LinterRule):
    name = "renew-unsaid"
    level = Severity.PROTOCOL_ERROR
    about = "A request that renews locks (type 4) must set IsRenewAck; otherwise it is INVALID_REQUEST."

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        renewing = [ack for ack in event.share.acknowledged if AcknowledgeType.RENEW in ack.types]
        if renewing and not event.share.is_renewing:
            where, first, last = self.where(renewing[0].partition), renewing[0].first, renewing[0].last
            yield Violation(event.member, f"{where} {first}-{last} renewed without IsRenewAck")


class RenewAndFetch(LinterRule):
    name = "renew-and-fetch"
    level = Severity.PROTOCOL_ERROR
    about = (
        "A ShareFetch that renews locks must not ask for records: unless MaxWaitMs, MinBytes, MaxBytes and MaxRecords "
        "are 0, the whole request is INVALID_REQUEST. ShareAcknowledge can renew, too, and is simpler."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        fetch = event.share.fetch
        if fetch is None or not fetch.is_renew_ack:
            return
        limits = {
            "MaxWaitMs": fetch.max_wait_ms,
            "MinBytes": fetch.min_bytes,
            "MaxBytes": fetch.max_bytes,
            "MaxRecords": fetch.max_records,
        }
        wrong = [f"{name} {value}" for name, value in limits.items() if value]
        if wrong:
            yield Violation(event.member, f"IsRenewAck with {', '.join(wrong)}")


class PartlyHeld(LinterRule):
    name = "good-with-bad"
    level = Severity.HARMFUL
    about = (
        "In one request, the acknowledgements of a partition succeed or fail together: one lost record makes all of "
        "them fail. Leave lost records out; if a request was refused, send the rest again in smaller pieces while the "
        "locks last."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        refused = event.share.refused() if event.share.errors else ()
        for partition in dict.fromkeys(ack.partition for ack in event.checked if ack.partition in refused):
            checked = [ack for ack in event.checked if ack.partition == partition]
            valid = sum(ack.size for ack in checked if ack.status is AckStatus.HELD)
            invalid = sum(ack.size for ack in checked if ack.status not in (AckStatus.HELD, AckStatus.UNSEEN))
            if valid and invalid and event.share.epoch != CLOSING:
                yield Violation(
                    event.member,
                    f"{self.where(partition)}: {invalid} invalid records made the broker refuse {valid}",
                )


RULES = (
    NotAcquired,
    AfterTheLock,
    SettledTwice,
    LostSession,
    WrongBroker,
    TypesLength,
    RangesOutOfOrder,
    UnknownType,
    RenewUnsaid,
    RenewAndFetch,
    PartlyHeld,
)
