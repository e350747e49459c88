"""What waits at the start offset of each share-partition, and since when, found by plain Fetch.

Brokers don't store that a group has skipped transaction markers and, with `share.isolation.level=read_committed`,
aborted transactions. So a group that has read everything may keep a start offset before them, and a lag.

Start offsets that haven't moved aren't read again, unless nothing was found there and the log has grown. A reading of
many partitions is spread over several calls, so that no call takes long; until then, no record is known to wait.

What few bytes become is read first: a topic whose batches of 500 bytes become 15 MiB would starve all others. Of what
is left for the rest, those get it first that were passed over most often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from kshare.admin.log_reading import LogReader
from kshare.admin.reading_budget import reading_budget
from kshare.admin.results import PartitionProgress
from kshare.admin.routing import Router
from kshare.errors import BrokerError, CorruptBatchError, DecodeError
from kshare.monitor.side_by_side import side_by_side
from kshare.protocol.compression_bounds import decompressed_bound
from kshare.protocol.decompression_budget import BudgetSpentError, DecompressionBudget
from kshare.protocol.record_header import HEADER
from kshare.protocol.records import Batch

K = TypeVar("K")

_PEEK_BYTES = 16 * 1024
_MOST_FETCHES = 500
_MOST_PEEKS = 4
"""So many fetches may find nothing but markers and aborted transactions before the next reading continues."""
_CHEAP_BYTES = 256 << 10
"""Of one batch, decompressed."""
_MOST_REMEMBERED = 20_000
_DEAR_AT_ONCE = 2
"""So that what is left goes to those that come first."""

_Partition = tuple[bytes, int, bool]


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a group from its start offset on, as far as it is known."""

    since: float | None = None
    """When the first record was written, in seconds since 1970; None if it isn't known, or there is none."""
    has_records: bool = True
    """False if none is known that the group may have: only markers, aborted transactions, or what isn't committed yet;
    or it wasn't looked at yet. True also if what is there can't be read."""


UNREAD = Waiting(has_records=False)


class _Place(NamedTuple):
    topic_id: bytes
    partition: int
    offset: int
    is_committed_only: bool

    @property
    def of(self) -> _Partition:
        return self.topic_id, self.partition, self.is_committed_only


class _TooLargeError(Exception):
    """It isn't cheap: it is read with what is left for such places."""


class OldestRecords:
    def __init__(self, router: Router) -> None:
        self._readers = {
            is_committed_only: LogReader(router, is_committed_only=is_committed_only, wait_s=0)
            for is_committed_only in (False, True)
        }
        self._known: dict[_Place, Waiting] = {}
        self._ends: dict[_Place, int] = {}
        """The ends of the logs when it was found that nothing waits."""
        self._looked_until: dict[_Place, int] = {}
        """Offsets before which nothing waits."""
        self._unreadable: set[_Place] = set()
        """What couldn't be read just now; the right to read a topic may be missing."""
        self._costs: dict[_Partition, int] = {}
        """How many bytes a batch became when the partition was last read."""
        self._passed_over: dict[_Partition, int] = {}
        """In how many readings since it was last read."""

    async def read(
        self,
        progress: Mapping[K, PartitionProgress],
        topic_ids: Mapping[str, bytes],
        is_committed_only: Callable[[K], bool],
    ) -> dict[K, Waiting]:
        """By the keys of `progress`; `is_committed_only` says whether their groups skip aborted transactions."""
        places: dict[K, _Place] = {}
        ends: dict[_Place, int] = {}
        for key, partition in progress.items():
            first = partition.expected_start if partition.start_offset is None else partition.start_offset
            if first is None or partition.end_offset is None or partition.topic not in topic_ids:
                continue
            if first < partition.end_offset and partition.lag != 0:
                place = _Place(topic_ids[partition.topic], partition.partition, first, is_committed_only(key))
                places[key] = place
                ends[place] = partition.end_offset
        # Where nothing waited, something does when the log has grown.
        self._known = {
            place: waiting
            for place, waiting in self._known.items()
            if place in ends and self._ends.get(place, ends[place]) == ends[place]
        }
        self._ends = {place: end for place, end in self._ends.items() if place in self._known}
        self._looked_until = {place: offset for place, offset in self._looked_until.items() if place in ends}
        self._unreadable.clear()
        self._forget({place.of for place in ends})
        new = [place for place in ends if place not in self._known]
        new.sort(key=lambda place: -self._passed_over.get(place.of, 0))
        now, later = new[:_MOST_FETCHES], new[_MOST_FETCHES:]
        cheap, rest = reading_budget(), reading_budget()
        dear: list[_Place] = []

        async def look(place: _Place) -> None:
            if self._costs.get(place.of, 0) > _CHEAP_BYTES or not await self._look(
                place, ends, cheap, is_cheap=True
            ):
                dear.append(place)

        async def look_again(place: _Place) -> None:
            has_room = rest.left > 0 and self._costs.get(place.of, 0) <= rest.left
            if not has_room or not await self._look(place, ends, rest, is_cheap=False):
                later.append(place)

        await side_by_side(look, now)
        dear.sort(
            key=lambda place: (
                self._costs.get(place.of, 0) > _CHEAP_BYTES,
                -self._passed_over.get(place.of, 0),
            )
        )
        await side_by_side(look_again, dear, at_once=_DEAR_AT_ONCE)
        for where in {place.of for place in later}:
            self._passed_over[where] = self._passed_over.get(where, 0) + 1
        known = self._known | dict.fromkeys(self._unreadable, Waiting())
        return {key: known.get(place, UNREAD) for key, place in places.items()}

    def _forget(self, present: set[_Partition]) -> None:
        """Partitions that nobody reads any more, once there are many."""
        if len(self._costs) + len(self._passed_over) > _MOST_REMEMBERED:
            self._costs = {where: cost for where, cost in self._costs.items() if where in present}
            self._passed_over = {
                where: count for where, count in self._passed_over.items() if where in present
            }

    async def _look(
        self, place: _Place, ends: Mapping[_Place, int], budget: DecompressionBudget, *, is_cheap: bool
    ) -> bool:
        """What can't be read leaves this place unknown, and nothing else. A batch that is broken isn't read again.

        False if the budget doesn't suffice.
        """
        try:
            found = await self._find(place, budget, is_cheap=is_cheap)
        except (_TooLargeError, BudgetSpentError):
            return False
        except CorruptBatchError:
            self._known[place] = Waiting()
        except (BrokerError, DecodeError):
            self._unreadable.add(place)
        else:
            if found is not None:
                self._known[place] = found
                if not found.has_records:
                    self._ends[place] = ends[place]
        self._passed_over.pop(place.of, None)
        return True

    async def _find(self, place: _Place, budget: DecompressionBudget, *, is_cheap: bool) -> Waiting | None:
        """None if the next reading has to continue."""
        offset = self._looked_until.get(place, place.offset)
        for _ in range(_MOST_PEEKS):
            fetch = await self._readers[place.is_committed_only].fetch(place[:2], offset, _PEEK_BYTES)
            for batch, is_for_users in fetch.batches(budget):
                if is_for_users:
                    time = self._first_time(batch, place, budget, is_cheap=is_cheap)
                    if time is not None:
                        return Waiting(time / 1000)
                offset = self._looked_until[place] = batch.last_offset + 1
            if offset >= fetch.end:
                return UNREAD
        return None

    def _first_time(
        self, batch: Batch, place: _Place, budget: DecompressionBudget, *, is_cheap: bool
    ) -> int | None:
        """When the first record at or after the place was written; None if there is none in this batch.

        Raises _TooLargeError if only cheap ones are wanted, and it isn't known to be one.
        """
        is_unknown = is_cheap and batch.compression and place.of not in self._costs
        if is_unknown and decompressed_bound(batch.compression, batch.view[HEADER.size :]) > _CHEAP_BYTES:
            raise _TooLargeError
        before = budget.left
        try:
            records = batch.records([(place.offset, batch.last_offset)])
            return next((record.timestamp for record in records), None)
        finally:
            if before > _CHEAP_BYTES:  # else it may not have had enough
                self._costs[place.of] = before - budget.left
