"""Bisection of refused acknowledgements: which are sent again together.

When a broker refuses one acknowledgement it rolls back all of the partition's, and doesn't say which one was refused.
So they are sent again in parts, one part per request:

    - A refused part is split in two: between leases if it has several (mostly whole leases lose their locks), otherwise
      in the middle of its records. Both halves are tried before either is split again, so good records are settled
      early.
    - The half that was refused last is finished first (depth first): at most two parts are open per split.
    - A part that was refused too often, without any of it ever being confirmed, is given up as lost.

The cost in requests: a part of n records of which none can be acknowledged is given up after
2 * ceil(log2(n)) + 8 refusals, or after all 2n - 1 parts if these are fewer: 28 for a lease of 1024 records. If no more
than four records of a part are bad, exactly those are found, and all others are settled.

A refused renewal has two possible causes: the lock is lost, or the group forbids renewing. Only what else is confirmed
tells them apart. So a lease of which neither the whole nor a half can be renewed is given up after these three
refusals, and nothing counts as lost. Once some of a lease was renewed, whatever else of it is refused has lost its
lock.

Decides the order of parts and when to give up. Knows neither states nor outcomes, and sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kshare.state.lease import Lease

LeaseRange = tuple[Lease, int, int]
"""A lease, and a first and last offset in it."""
SentRange = tuple[Lease, int, int]
"""A lease, and the first and last offset of consecutive records that were all sent together."""

_EXTRA_REFUSALS = 8
"""Refusals allowed beyond two per split: small parts are searched completely."""
_RENEWAL_REFUSALS = 3
"""For renewals of whole leases: the whole and both halves, which a single lost record can't explain."""


class RetryPart:
    """Acknowledgements that are sent together, and the halves that they were split into."""

    __slots__ = ("halves", "is_confirmed", "is_whole", "lease_ranges", "limit", "parent", "refusals", "size")

    def __init__(
        self, runs: Sequence[SentRange], parent: RetryPart | None, limit: int, *, is_whole: bool
    ) -> None:
        self.lease_ranges: tuple[LeaseRange, ...] = tuple(_lease_ranges(runs))
        self.size = _size(runs)
        self.parent = parent
        self.limit = limit
        self.is_whole = is_whole
        """It holds everything of its leases that was refused together."""
        self.refusals = 0
        self.is_confirmed = False
        """Some of it was confirmed."""
        self.halves: tuple[RetryPart, ...] = ()

    @property
    def whole(self) -> RetryPart:
        """The smallest part that holds everything of its leases: this one, or one that it was split from."""
        return next(part for part in self.ancestry() if part.is_whole)

    def ancestry(self) -> Iterator[RetryPart]:
        """This part, and those that it was split from."""
        part: RetryPart | None = self
        while part is not None:
            yield part
            part = part.parent


class AckRetries:
    """The open parts of one partition, either of renewals or of other acknowledgements."""

    def __init__(self, *, of_renewals: bool) -> None:
        self._of_renewals = of_renewals
        self._pending: list[RetryPart] = []
        self._refused: list[RetryPart] = []
        self._refused_alone: list[RetryPart] = []
        """Renewals of single records that were refused before any other of their lease was confirmed."""

    @property
    def is_open(self) -> bool:
        return bool(self._pending or self._refused)

    def next_part(self) -> RetryPart | None:
        """What to send next."""
        if not self._pending and self._refused:
            self._pending += reversed(self._refused.pop().halves)
        return self._pending.pop() if self._pending else None

    def put_back(self, part: RetryPart) -> None:
        """It was neither confirmed nor refused."""
        self._pending.append(part)

    def on_confirmed(self, part: RetryPart) -> list[LeaseRange]:
        """Returns what has lost its lock, as this shows: renewals that were refused alone before."""
        for ancestor in part.ancestry():
            ancestor.is_confirmed = True
        lost = [other for other in self._refused_alone if other.whole is part.whole]
        for other in lost:
            self._refused_alone.remove(other)
        return [lease_range for other in lost for lease_range in other.lease_ranges]

    def on_refused(self, part: RetryPart | None, runs: Sequence[SentRange]) -> tuple[bool, list[LeaseRange]]:
        """These were refused, as this part or for the first time. Returns whether a whole is given up, and what is."""
        size = _size(runs)
        is_new = part is None
        if part is None:
            if not self.is_open:
                self._refused_alone = []
            part = RetryPart(runs, None, self._limit(size, is_whole=True), is_whole=True)
        given_up: RetryPart | None = None
        for ancestor in part.ancestry():
            ancestor.refusals += 1
            if not ancestor.is_confirmed and ancestor.refusals >= ancestor.limit:
                given_up = ancestor
        if given_up is not None:
            return given_up.is_whole, self._give_up(given_up, part)
        if size == 1:
            return self._on_refused_alone(part)
        part.halves = self._halves(part, runs)
        # In order: what was refused first has waited longest.
        self._refused.insert(0 if is_new else len(self._refused), part)
        return False, []

    def _on_refused_alone(self, part: RetryPart) -> tuple[bool, list[LeaseRange]]:
        if not self._of_renewals or part.whole.is_confirmed:
            return False, list(part.lease_ranges)
        if part.is_whole:
            return True, list(part.lease_ranges)
        self._refused_alone.append(part)
        return False, []

    def open_ranges(self) -> dict[Lease, list[tuple[int, int]]]:
        """First and last offsets of the open parts by lease, ascending."""
        open_ranges: dict[Lease, list[tuple[int, int]]] = {}
        for parts in (self._pending, self._refused, self._refused_alone):
            for part in parts:
                for lease, first, last in part.lease_ranges:
                    open_ranges.setdefault(lease, []).append((first, last))
        for ranges in open_ranges.values():
            ranges.sort()
        return open_ranges

    def clear(self) -> None:
        self._pending, self._refused, self._refused_alone = [], [], []

    def _limit(self, size: int, *, is_whole: bool) -> int:
        if self._of_renewals and is_whole:
            return _RENEWAL_REFUSALS
        return 2 * (size - 1).bit_length() + _EXTRA_REFUSALS

    def _give_up(self, refused: RetryPart, last: RetryPart) -> list[LeaseRange]:
        lease_ranges = list(last.lease_ranges)
        for parts in (self._pending, self._refused, self._refused_alone):
            for part in list(parts):
                if refused in part.ancestry():
                    parts.remove(part)
                    lease_ranges += part.lease_ranges
        return lease_ranges

    def _halves(self, part: RetryPart, runs: Sequence[SentRange]) -> tuple[RetryPart, ...]:
        is_one_lease = all(lease is runs[0][0] for lease, _, _ in runs)
        cut = _split_in_half if is_one_lease else _split_between_leases
        is_whole = part.is_whole and not is_one_lease
        return tuple(
            RetryPart(half, part, self._limit(_size(half), is_whole=is_whole), is_whole=is_whole)
            for half in cut(runs)
        )


def _size(runs: Sequence[SentRange]) -> int:
    return sum(last - first + 1 for _, first, last in runs)


def _lease_ranges(runs: Sequence[SentRange]) -> Iterator[LeaseRange]:
    """Yields the range from the first to the last record of each lease."""
    at = 0
    while at < len(runs):
        lease, first, last = runs[at]
        while at < len(runs) and runs[at][0] is lease:
            last = runs[at][2]
            at += 1
        yield lease, first, last


def _split_between_leases(runs: Sequence[SentRange]) -> tuple[Sequence[SentRange], Sequence[SentRange]]:
    """Splits between two leases, as close to the middle as possible."""
    half, before = _size(runs) / 2, 0
    best, distance = 0, half
    for at, (lease, first, last) in enumerate(runs):
        if at and lease is not runs[at - 1][0] and abs(before - half) < distance:
            best, distance = at, abs(before - half)
        before += last - first + 1
    return runs[:best], runs[best:]


def _split_in_half(runs: Sequence[SentRange]) -> tuple[Sequence[SentRange], Sequence[SentRange]]:
    remaining = (_size(runs) + 1) // 2
    for at, (lease, first, last) in enumerate(runs):
        size = last - first + 1
        if remaining < size:
            head = [*runs[:at], (lease, first, first + remaining - 1)] if remaining else runs[:at]
            return head, [(lease, first + remaining, last), *runs[at + 1 :]]
        remaining -= size
    raise AssertionError("there are at least two records to split")
