"""Defects to be planted into kshare, in memory, to see whether the storm finds them. Needs `KSHARE_FAST=0`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kshare.client.arrivals import PendingBatch
from kshare.client.record import lease_of
from kshare.client.streams import RecordStream
from kshare.engine.confirmation import Confirmation
from kshare.engine.lease_book import LeaseBook
from kshare.protocol import records
from kshare.state.acks import AckOutcome
from kshare.state.lease import ACCEPT, GAP, RELEASE, Lease
from kshare.state.unseen_releases import Price, UnseenReleases
from kshare.sync.loops import RecordLoop


def sync_accepts_ranges() -> None:
    """Blocking loops accept everything up to the current record, as if all of it had been handed out."""

    def accept_current(loop: Any) -> None:
        record = loop._current
        lease = lease_of(record.batch)
        for offset in range(lease.first, record.offset + 1):
            loop._opened.decisions.settle_if_held(lease, offset, ACCEPT)

    _replace(RecordLoop, "_accept_current", accept_current)


def releases_are_free() -> None:
    """Records that nobody saw are given back without a pause or a line in the log."""

    def price(releases: UnseenReleases, partition: Any, delivery_count: int, now: float) -> Price:
        return Price(0.0, releases.limit)

    _replace(UnseenReleases, "on_released", price)
    _replace(UnseenReleases, "left", lambda releases, delivery_count: releases.limit)


def corrupt_is_a_gap() -> None:
    """Offsets of corrupt batches are acknowledged as gaps."""
    _replace(PendingBatch, "_release", _settling(GAP))


def corrupt_is_accepted() -> None:
    """Offsets of corrupt batches are accepted."""
    _replace(PendingBatch, "_release", _settling(ACCEPT))


def released_is_accepted() -> None:
    """What loops and users release is accepted instead."""
    decide = Lease.decide

    def accept(lease: Lease, offset: int, kind: int) -> bool:
        return decide(lease, offset, ACCEPT if kind == RELEASE else kind)

    _replace(Lease, "decide", accept)


def cancelled_is_accepted() -> None:
    """When an async loop ends, its current record is accepted, even if it was cancelled in the middle."""

    def on_left(stream: Any) -> None:
        stream._inbox.end_loop()
        if stream._current is not None:
            lease_of(stream._current.batch).decide_if_held(stream._current.offset, ACCEPT)

    _replace(RecordStream, "_on_left", on_left)


def refused_is_confirmed() -> None:
    """An accept that came after its lock had expired is reported as confirmed."""
    on_outcomes = LeaseBook.on_outcomes

    def confirm(book: LeaseBook, outcomes: Iterable[AckOutcome]) -> None:
        on_outcomes(book, [outcome._replace(error=0, is_open=False) for outcome in outcomes])

    _replace(LeaseBook, "on_outcomes", confirm)


def neighbour_is_accepted() -> None:
    """The next record is accepted instead."""
    decide = Lease.decide

    def accept(lease: Lease, offset: int, kind: int) -> bool:
        shifted = offset + 1 if kind == ACCEPT and offset < lease.last else offset
        return decide(lease, shifted, kind)

    _replace(Lease, "decide", accept)


def commit_is_hasty() -> None:
    """`commit` returns before anything is confirmed."""
    Confirmation.is_settled = property(lambda confirmation: True)  # type: ignore[assignment, method-assign]


def checksums_are_ignored() -> None:
    """Corrupt batches are handed out."""

    def checksum(data: Any) -> int:
        return _Anything()

    _replace(records, "crc32c", checksum)


class _Anything(int):
    """Equal to every checksum."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def _settling(kind: int) -> Callable[[PendingBatch, Any], None]:
    def settle(pending: PendingBatch, contents: Any) -> None:
        for first, last in contents.unverified:
            for offset in range(first, last + 1):
                pending.lease.decide_if_held(offset, kind)

    return settle


def _replace(owner: Any, name: str, function: Callable[..., Any]) -> None:
    assert callable(getattr(owner, name))
    setattr(owner, name, function)


DEFECTS: dict[str, tuple[Callable[[], None], str]] = {
    plant.__name__: (plant, found)
    for plant, found in (
        (sync_accepts_ranges, "accepted unseen"),
        (releases_are_free, "hot loop"),
        (corrupt_is_a_gap, "lost"),
        (corrupt_is_accepted, "accepted unseen"),
        (released_is_accepted, "accepted unseen"),
        (cancelled_is_accepted, "accepted unseen"),
        (refused_is_confirmed, "confirmed falsely"),
        (neighbour_is_accepted, "accepted unseen"),
        (commit_is_hasty, "confirmed falsely"),
        (checksums_are_ignored, "wrong contents"),
    )
}
"""Each, and which of the judge's findings it causes."""


def plant(name: str) -> None:
    DEFECTS[name][0]()
