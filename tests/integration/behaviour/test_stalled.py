"""A handler that stalls, with a broker or a consumer that doesn't renew."""

from __future__ import annotations

import anyio
import pytest

from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]


async def test_a_stalled_handler_does_not_use_up_delivery_counts(fresh_queue: FreshQueue) -> None:
    """Otherwise the broker would archive records that no handler ever received."""
    queue = fresh_queue(settings={"share.record.lock.duration.ms": "1000"})
    await queue.produce(10)
    async with queue.consumer(renew_leases=False) as stalled:
        with anyio.fail_after(DEADLINE_S):
            await anext(stalled.batches())
        await anyio.sleep(4.5)
    async with queue.consumer() as source:
        found = await take(source, 10)
    assert {record.delivery_count for record in found} <= {2, 3}
