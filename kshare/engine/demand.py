"""What sessions base their fetches on: what the holder wants, and the state of its leases."""

from __future__ import annotations

from kshare.engine.lease_book import LeaseBook


class HeldDemand:
    """`state.request_planner.Demand`, for all sessions of one member."""

    __slots__ = ("_book", "brokers", "holder")

    def __init__(self, book: LeaseBook) -> None:
        self._book = book
        self.holder = book.holder
        self.brokers = 1

    @property
    def undecided(self) -> int:
        return self._book.counter.undecided

    @property
    def is_confirming(self) -> bool:
        return self._book.commits.is_confirming

    @property
    def has_committed(self) -> bool:
        return self._book.commits.has_committed

    @property
    def lease_check_at(self) -> float:
        return self._book.wake_at
