"""The batches that weren't written, and who hasn't been told yet.

Pure. Somebody knows of a record that wasn't written if its result was asked for. Of the others, each caller of `flush`
is told what it doesn't know: failures that nobody was told of, and those of batches with records of its own, even if
another caller was told of them. So a caller never takes what another one is waiting for. A caller is a task, or with
`kshare.sync` a thread.

Bounded: if there are many failures, those of a partition are counted together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from weakref import WeakKeyDictionary

from kshare.errors import KshareError

_SEPARATE = 1000
"""How many failures are kept separately, at least."""
_PLACES_TOLD = 5


class BatchFailure:
    """A batch that wasn't written."""

    __slots__ = ("_joined", "make_error", "number", "place", "unseen")

    def __init__(self, place: str, make_error: Callable[[], KshareError]) -> None:
        self.place = place
        self.make_error = make_error
        """Each caller gets an error of its own, because a shared one would accumulate all their tracebacks."""
        self.number = 0
        """Failures are numbered in the order in which they happen."""
        self.unseen = 0
        """How many records nobody has asked for the result of."""
        self._joined: BatchFailure | None = None

    def add_unseen(self, count: int) -> None:
        self._counting.unseen += count

    def join(self, older: BatchFailure) -> None:
        """Be counted with an older one of the same partition, which tells about both from now on."""
        older.unseen, older.number = older.unseen + self.unseen, self.number
        self.unseen, self._joined = 0, older

    @property
    def _counting(self) -> BatchFailure:
        failure = self
        while failure._joined is not None:
            failure = failure._joined
        return failure


class Failures:
    def __init__(self) -> None:
        self.kept: list[BatchFailure] = []
        self._last = 0
        """The number of the newest failure."""
        self._told = 0
        """Somebody was told of failures up to this one."""
        self._unaware: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        """Callers some of whose records weren't written, and up to which failure they know about that."""
        self._limit = _SEPARATE

    def add(self, failure: BatchFailure, callers: Iterable[object]) -> None:
        """`callers` have records in the batch."""
        for caller in set(callers) - {None}:
            self._unaware.setdefault(caller, self._last)
        self._last += 1
        failure.number = self._last
        self.kept.append(failure)
        if len(self.kept) > self._limit:
            self._shorten()

    def known_to(self, caller: object) -> int:
        """The number of the last failure that this caller needn't be told of. Ask before you wait for more of them."""
        return self._told if caller is None else min(self._told, self._unaware.get(caller, self._told))

    def tell(self, caller: object, known: int) -> KshareError | None:
        """The error for those that come after `known` and that nobody has seen. Then the caller is aware of all."""
        untold = [failure for failure in self.kept if failure.number > known and failure.unseen]
        self.forget(caller)
        if not untold:
            return None
        error = untold[0].make_error()
        count = sum(failure.unseen for failure in untold)
        if count > 1:
            places: Counter[str] = Counter()
            for failure in untold:
                places[failure.place] += failure.unseen
            parts = [f"{number:,} for {place}" for place, number in places.most_common(_PLACES_TOLD)]
            others = len(places) - len(parts)
            error.add_note(
                f"{count:,} records weren't confirmed: {', '.join(parts)}"
                f"{f', and others for {others:,} more partitions' if others > 0 else ''}"
            )
        return error

    def forget(self, caller: object) -> None:
        """This caller is aware of all failures."""
        self._told = self._last
        if caller is not None:
            self._unaware.pop(caller, None)

    def _shorten(self) -> None:
        """Forget those that everybody knows, and join those of the same partition."""
        known = min((self._told, *self._unaware.values()))
        joined: dict[str, BatchFailure] = {}
        for failure in self.kept:
            if failure.unseen and failure.number > known:
                if failure.place in joined:
                    failure.join(joined[failure.place])
                else:
                    joined[failure.place] = failure
        self.kept = sorted(joined.values(), key=lambda failure: failure.number)
        self._limit = max(_SEPARATE, 2 * len(self.kept))
