"""When the first unsettled record of each share-partition was written, found by plain Fetch.

Start offsets that haven't moved aren't read again. A reading of many partitions is spread over several calls, so that
no call takes long; until then, the time is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kshare.admin.log_reading import FetchedBatches, LogReader
from kshare.admin.reading_budget import reading_budget
from kshare.admin.results import PartitionProgress
from kshare.admin.routing import Router
from kshare.errors import BrokerError, CorruptBatchError, DecodeError
from kshare.monitor.side_by_side import side_by_side
from kshare.protocol.decompression_budget import DecompressionBudget

_PEEK_BYTES = 16 * 1024
_MOST_FETCHES = 500

_Place = tuple[bytes, int, int]
"""Topic id, partition, offset."""


class OldestRecords:
    def __init__(self, router: Router) -> None:
        self._reader = LogReader(router)
        self._written: dict[_Place, float | None] = {}

    async def read(
        self, progress: Iterable[PartitionProgress], topic_ids: Mapping[str, bytes]
    ) -> dict[tuple[str, int, int], float]:
        """Times in seconds since 1970, by topic, partition and first unsettled offset. Unknown ones are missing."""
        wanted = {
            (topic_ids[one.topic], one.partition, first): one
            for one in progress
            if (first := _first_of(one)) is not None and one.end_offset is not None
            if first < one.end_offset and one.lag != 0 and one.topic in topic_ids
        }
        self._written = {place: time for place, time in self._written.items() if place in wanted}
        new = [place for place in wanted if place not in self._written]
        budget = reading_budget()

        async def look(place: _Place) -> None:
            if budget.left > 0:  # the others are looked at in the next reading
                await self._look(place, budget)

        await side_by_side(look, new[:_MOST_FETCHES])
        return {
            (one.topic, one.partition, place[2]): time
            for place, one in wanted.items()
            if (time := self._written.get(place)) is not None
        }

    async def _look(self, place: _Place, budget: DecompressionBudget) -> None:
        """What can't be read leaves this time unknown, and nothing else. A batch that is broken isn't read again."""
        topic_id, partition, offset = place
        try:
            fetch = await self._reader.fetch((topic_id, partition), offset, _PEEK_BYTES)
            self._written[place] = _first_time(fetch, offset, budget)
        except CorruptBatchError:
            self._written[place] = None
        except (BrokerError, DecodeError):
            return


def _first_time(fetch: FetchedBatches, offset: int, budget: DecompressionBudget) -> float | None:
    for batch, is_for_users in fetch.batches(budget):
        if is_for_users:
            for record in batch.records([(offset, batch.last_offset)]):
                return record.timestamp / 1000
    return None


def _first_of(one: PartitionProgress) -> int | None:
    return one.expected_start if one.start_offset is None else one.start_offset
