"""What sessions go by when they ask for records: what the holder wants, and where its leases stand."""

from __future__ import annotations

from kshare.engine.lease_book import LeaseBook


class HeldDemand:
    """`state.request_planner.Demand`, for all sessions of one member."""

    __slots__ = ("_book", "_holder", "brokers")

    def __init__(self, book: LeaseBook) -> None:
        self._book = book
        self._holder = book.holder
        self.brokers = 1
        """That are fetched from: they share what room there is."""

    @property
    def wants_more(self) -> bool:
        return self._holder.wants_more

    @property
    def room(self) -> int:
        return self._holder.room(max(1, self.brokers))

    @property
    def room_in_bytes(self) -> int:
        return self._holder.room_in_bytes(max(1, self.brokers))

    @property
    def undecided(self) -> int:
        return self._book.tally.undecided

    @property
    def few(self) -> int:
        return self._holder.few

    @property
    def is_asked(self) -> bool:
        return self._holder.is_asked

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
    def handed_at(self) -> float:
        return self._holder.handed_at

    @property
    def leases_at(self) -> float:
        return self._book.keeper.wake_at
