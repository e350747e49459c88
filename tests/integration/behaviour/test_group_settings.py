"""Changes of a group's configuration while its consumers run."""

from __future__ import annotations

import anyio
import pytest

from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]


async def test_a_changed_lock_duration_applies_from_the_next_fetch(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(settings={"share.record.lock.duration.ms": "10000"})
    async with queue.consumer() as source:
        await queue.produce(1)
        (before,) = await take(source, 1)
        assert 5 < before.lease_deadline - anyio.current_time() <= 10
        await queue.configure_group({"share.record.lock.duration.ms": "2000"})
        with anyio.fail_after(DEADLINE_S):
            while True:
                await queue.produce(1)
                (after,) = await take(source, 1)
                if after.lease_deadline - anyio.current_time() <= 2:
                    break
