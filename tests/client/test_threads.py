"""Records of an async consumer in another thread than that of its event loop: acknowledging them there is refused."""

from __future__ import annotations

import anyio
import pytest

from kshare import KshareError
from kshare.client.record import ShareBatch, ShareRecord
from tests.fakes.tiny_cluster import ACCEPTED, TinyCluster
from tests.helpers.consuming import DEADLINE_S, consumer, next_of

pytestmark = pytest.mark.anyio


async def test_acknowledging_in_another_thread_is_refused_before_anything_happens() -> None:
    """It took effect, and then raised RuntimeError on trio; asyncio's event loop wasn't woken."""

    def settle_in_a_thread(record: ShareRecord, batch: ShareBatch) -> None:
        for call in (record.accept, record.release, record.reject, record.renew, batch.accept, batch.reject):
            with pytest.raises(KshareError, match="has to be acknowledged there"):
                call()

    async with TinyCluster("t").running() as cluster:
        cluster.topics["t"].append(b"0", b"1")
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t", acknowledgement="explicit") as source:
                record = await next_of(source)
                batch = await source.next_batch()
                await anyio.to_thread.run_sync(settle_in_a_thread, record, batch)
                assert record.batch.is_held
                assert batch.is_held
                await anyio.to_thread.run_sync(lambda: anyio.from_thread.run_sync(record.accept))
                batch.accept()
                assert await source.commit() == {("t", 0): None}
        assert cluster.topics["t"].states == [ACCEPTED] * 2
