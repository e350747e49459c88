"""What sessions base their fetches on: what the holder wants, and the state of its leases."""

from __future__ import annotations

from kshare.engine.lease_book import LeaseBook


class HeldDemand:
    """`state.request_planner.Demand`, for all sessions of one member."""

    __slots__ = ("_book", "_holder", "brokers")

    def __init__(self, book: LeaseBook) -> None:
        self._book = book
        self._holder = book.holder
        self.brokers = 1
        """The number of brokers that are fetched from. They share the capacity."""

    @property
    def wants_more(self) -> bool:
        return self._holder.wants_more

    @property
    def capacity(self) -> int:
        return self._holder.capacity(max(1, self.brokers))

    @property
    def capacity_in_bytes(self) -> int:
        return self._holder.capacity_in_bytes(max(1, self.brokers))

    @property
    def undecided(self) -> int:
        return self._book.counter.undecided

    @property
    def refill_at(self) -> int:
        return self._holder.refill_at

    @property
    def is_user_waiting(self) -> bool:
        return self._holder.is_user_waiting

    @property
    def wants_only_ready(self) -> bool:
        return self._holder.wants_only_ready

    @property
    def is_confirming(self) -> bool:
        return self._book.commits.is_confirming

    @property
    def has_committed(self) -> bool:
        return self._book.commits.has_committed

    @property
    def rate(self) -> float:
        return self._holder.rate

    @property
    def handed_out_at(self) -> float:
        return self._holder.handed_out_at

    @property
    def lease_check_at(self) -> float:
        return self._book.wake_at
