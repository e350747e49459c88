"""How many records a fetch acquires: whole batches, or exactly as many as requested."""

from __future__ import annotations

import anyio
import pytest

from kshare.state.fetch_size import MIN_FETCH_BYTES
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]

COUNT, LIMIT = 60, 10
PARTITIONS = 3


@pytest.mark.parametrize("acquire", ["records", "batches"])
async def test_measured_a_record_limit_is_exact_even_within_a_larger_batch(
    fresh_queue: FreshQueue, acquire: str
) -> None:
    """4.1 only acquires whole batches, as all releases do if `acquire` is "batches". Offsets always ascend."""
    queue = fresh_queue()
    await queue.produce(COUNT)
    sizes, offsets = [], []
    async with queue.consumer(acknowledgement="explicit", acquire=acquire, max_records=LIMIT) as source:
        with anyio.fail_after(DEADLINE_S):
            async for batch in source.batches():
                sizes.append(len(batch))
                offsets += [record.offset for record in batch]
                batch.accept()
                if len(offsets) == COUNT:
                    break
        assert set((await source.commit()).values()) == {None}
    assert offsets == list(range(COUNT))
    if acquire == "records" and not queue.is_4_1:
        assert max(sizes) <= LIMIT
    else:
        assert max(sizes) > LIMIT, "the producer's batches must be larger than the limit"


async def test_records_larger_than_the_first_fetch_size_are_delivered(fresh_queue: FreshQueue) -> None:
    """Each record is a batch of three times that size, in every partition."""
    size = 3 * MIN_FETCH_BYTES
    queue = fresh_queue(PARTITIONS, topic={"max.message.bytes": str(size + MIN_FETCH_BYTES)})
    for partition in range(PARTITIONS):
        await queue.send([bytes([partition]) * size] * 3, partition=partition, key=None)
    taken: list[tuple[int, int]] = []
    async with queue.consumer() as source:
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                assert record.value == bytes([record.partition]) * size
                taken.append((record.partition, record.offset))
                if len(taken) == 3 * PARTITIONS:
                    break
    assert sorted(taken) == [(partition, offset) for partition in range(PARTITIONS) for offset in range(3)]
