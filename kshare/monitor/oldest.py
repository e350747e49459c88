"""What waits at the start offset of each share-partition, and since when, found by plain Fetch.

Brokers don't store that a group has skipped transaction markers and, with `share.isolation.level=read_committed`,
aborted transactions. So a group that has read everything may keep a start offset before them, and a lag.

Start offsets that haven't moved aren't read again, unless nothing was found there and the log has grown. A reading of
many partitions is spread over several calls, so that no call takes long; until then, no record is known to wait.
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
from kshare.protocol.decompression_budget import BudgetSpentError, DecompressionBudget

K = TypeVar("K")

_PEEK_BYTES = 16 * 1024
_MOST_FETCHES = 500
_MOST_PEEKS = 4
"""So many fetches may find nothing but markers and aborted transactions before the next reading continues."""


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

    async def read(
        self,
        progress: Mapping[K, PartitionProgress],
        topic_ids: Mapping[str, bytes],
        is_committed_only: Callable[[K], bool],
    ) -> dict[K, Waiting]:
        """By the keys of `progress`; `is_committed_only` says whether their groups skip aborted transactions."""
        places: dict[K, _Place] = {}
        ends: dict[_Place, int] = {}
        for key, one in progress.items():
            first = _first_of(one)
            if first is None or one.end_offset is None or one.topic not in topic_ids:
                continue
            if first < one.end_offset and one.lag != 0:
                place = _Place(topic_ids[one.topic], one.partition, first, is_committed_only(key))
                places[key] = place
                ends[place] = one.end_offset
        # Where nothing waited, something does when the log has grown.
        self._known = {
            place: waiting
            for place, waiting in self._known.items()
            if place in ends and self._ends.get(place, ends[place]) == ends[place]
        }
        self._ends = {place: end for place, end in self._ends.items() if place in self._known}
        self._looked_until = {place: one for place, one in self._looked_until.items() if place in ends}
        self._unreadable.clear()
        new = [place for place in ends if place not in self._known]
        budget = reading_budget()

        async def look(place: _Place) -> None:
            if budget.left > 0:  # the others are looked at in the next reading
                await self._look(place, ends[place], budget)

        await side_by_side(look, new[:_MOST_FETCHES])
        known = self._known | dict.fromkeys(self._unreadable, Waiting())
        return {key: known.get(place, UNREAD) for key, place in places.items()}

    async def _look(self, place: _Place, end: int, budget: DecompressionBudget) -> None:
        """What can't be read leaves this place unknown, and nothing else. A batch that is broken isn't read again."""
        try:
            found = await self._find(place, budget)
        except CorruptBatchError:
            self._known[place] = Waiting()
        except BudgetSpentError:
            return
        except (BrokerError, DecodeError):
            self._unreadable.add(place)
        else:
            if found is None:
                return
            self._known[place] = found
            if not found.has_records:
                self._ends[place] = end

    async def _find(self, place: _Place, budget: DecompressionBudget) -> Waiting | None:
        """None if the next reading has to continue."""
        offset = self._looked_until.get(place, place.offset)
        for _ in range(_MOST_PEEKS):
            fetch = await self._readers[place.is_committed_only].fetch(place[:2], offset, _PEEK_BYTES)
            for batch, is_for_users in fetch.batches(budget):
                if is_for_users:
                    for record in batch.records([(place.offset, batch.last_offset)]):
                        return Waiting(record.timestamp / 1000)
                offset = batch.last_offset + 1
            self._looked_until[place] = offset
            if offset >= fetch.end:
                return UNREAD
        return None


def _first_of(one: PartitionProgress) -> int | None:
    return one.expected_start if one.start_offset is None else one.start_offset
