"""Locks: expired, renewed too often, or without progress."""

from __future__ import annotations

from kshare.protocol.acknowledge_types import AcknowledgeType
from kshare.traffic.findings import LinterRule, Severity, Violation, Violations, spans_text
from kshare.traffic.group_tracker import GroupTracker, ShareEvent
from kshare.traffic.members import ObservedLock, ObservedMember
from kshare.traffic.share_exchange import Partition

_MANY_RENEWALS = 10
_LATE_PART = 0.8
"""If an acknowledgement takes more than this part of the lock, the lock is about to expire."""
_DELIVERIES = 3
_GRACE_S = 1.0
"""After a lock expires, its acknowledgement may still be under way for this long, plus the wait of a fetch."""


class LockRanOut(LinterRule):
    name = "lock-ran-out"
    level = Severity.HARMFUL
    about = (
        "Records were held until their lock expired, so they are redelivered, to this member or another. Take fewer "
        "at a time, renew locks during processing, or raise share.record.lock.duration.ms."
    )

    def on_time(self, tracker: GroupTracker, now: float) -> Violations:
        for member, session in tracker.sessions():
            found: dict[Partition, int] = {}
            for partition, count, lease in session.leases():
                if _is_over(member, lease, now) and not lease.is_reported:
                    found[partition] = found.get(partition, 0) + count
            for _, _, lease in session.leases():
                lease.is_reported |= _is_over(member, lease, now)
            for partition, count in found.items():
                yield Violation(
                    member, f"{count} records of {self.where(partition)} were held until the lock expired"
                )


class NeverAcknowledges(LinterRule):
    name = "never-acknowledges"
    level = Severity.HARMFUL
    about = (
        "The member acquires records and lets every lock expire. Other members get them later, and after the last "
        "delivery they are archived. With explicit acknowledgement, the member's code has to acknowledge; look for a "
        "stuck handler."
    )

    def on_time(self, tracker: GroupTracker, now: float) -> Violations:
        for member, session in tracker.sessions():
            settled = sum(
                count for kind, count in member.acknowledged.items() if kind != AcknowledgeType.RENEW
            )
            expired = sum(count for _, count, lease in session.leases() if _is_over(member, lease, now))
            if expired and not settled:
                yield Violation(
                    member,
                    f"{member.acquired} records acquired, {expired} locks expired, none acknowledged",
                    "all",
                )


class EndlessRenewals(LinterRule):
    name = "endless-renewals"
    level = Severity.HARMFUL
    about = (
        "As long as a lock is renewed again and again, no error is reported, and no other member gets the record. "
        "Limit how long a record may be processed, then release or reject it."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        for ack in event.checked:
            if ack.type == AcknowledgeType.RENEW and ack.lease and ack.lease.renewals + 1 >= _MANY_RENEWALS:
                held = event.share.exchange.asked_at - ack.lease.acquired_at
                yield Violation(
                    event.member,
                    f"{self.where(ack.partition)} {spans_text([(ack.first, ack.last)])} renewed "
                    f"{ack.lease.renewals + 1} times in {held:.0f} s",
                )


class SlowAcknowledgements(LinterRule):
    name = "slow-acknowledgements"
    level = Severity.HARMFUL
    sees_all_exchanges = True
    about = (
        "Records were acknowledged when most of their lock had passed; with a little more load, locks will expire. "
        "Take fewer at a time, or renew their locks."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        now = event.share.exchange.asked_at
        worst = 0.0
        count = 0
        for ack in event.checked:
            if (
                ack.lease is None
                or ack.type == AcknowledgeType.RENEW
                or ack.lease.renewals
                or now > ack.lease.deadline
            ):
                continue
            part = (now - ack.lease.acquired_at) / max(ack.lease.deadline - ack.lease.acquired_at, 1e-9)
            if part > _LATE_PART:
                worst, count = max(worst, part), count + ack.size
        if not count:
            return ()
        return (Violation(event.member, f"{count} records acknowledged after {worst:.0%} of their lock"),)


class RedeliveryLoop(LinterRule):
    name = "redelivery-loop"
    level = Severity.HARMFUL
    about = (
        "The same records were delivered three times or more. Something releases them each time, or lets their lock "
        "expire: reject records that can't be processed. After share.delivery.count.limit deliveries they are "
        "archived."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        for records in event.share.acquired:
            if records.delivery_count >= _DELIVERIES:
                yield Violation(
                    event.member,
                    f"{self.where(records.partition)} {spans_text([(records.first, records.last)])} delivered for the "
                    f"{_ordinal(records.delivery_count)} time",
                )


def _is_over(member: ObservedMember, lease: ObservedLock, now: float) -> bool:
    return lease.deadline + _GRACE_S + member.longest_wait_ms / 1000 < now


def _ordinal(number: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(number, f"{number}th")


RULES = (LockRanOut, NeverAcknowledges, EndlessRenewals, SlowAcknowledgements, RedeliveryLoop)
