"""A share-partition's acknowledgements, and a broker that confirms or refuses them."""

from __future__ import annotations

from kshare.protocol.error_codes import ErrorCode
from kshare.state.acks import PartitionAcks
from kshare.state.lease import Lease
from kshare.state.session import AckRange

P = (b"t" * 16, 0)


def acks(*spans: tuple[int, int], deadline: float = 30.0) -> tuple[PartitionAcks, list[Lease]]:
    book = PartitionAcks(P)
    leases = [Lease(P, first, last, 1, deadline=deadline) for first, last in spans]
    for lease in leases:
        book.add(lease)
    return book, leases


class Broker:
    """Refuses a request as a whole if one of its records isn't acquired."""

    def __init__(self, acquired: set[int]) -> None:
        self.acquired = acquired
        self.settled: set[int] = set()
        self.requests = 0

    def response(self, ranges: list[AckRange]) -> int:
        self.requests += 1
        offsets = {offset for range_ in ranges for offset in range(range_.first, range_.last + 1)}
        if not offsets <= self.acquired:
            return ErrorCode.INVALID_RECORD_STATE
        self.acquired -= offsets
        self.settled |= offsets
        return 0
