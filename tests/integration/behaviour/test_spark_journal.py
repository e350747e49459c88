"""The topic of a Spark query's journal: fenced, trimmed."""

from __future__ import annotations

from uuid import UUID

import anyio
import pytest

from kshare.admin.routing import Router
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.spark.journal.journal import Journal, open_journal
from kshare.spark.journal.store import JournalFenced
from kshare.spark.journal.topic_store import TopicStore
from kshare.spark.ranges import JournalPosition, RecordRange
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import WorkQueue

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]

TOPIC_ID = str(UUID(int=7))
FRAMES = 40


async def opened(queue: WorkQueue, router: Router, known: JournalPosition | None = None) -> Journal:
    async def is_running(group: str, member: str) -> bool:
        return False

    store = TopicStore(router, f"kshare-journal-{queue.group}")
    await store.open([queue.topic])
    return await open_journal(
        store, group=queue.group, member="m", known=known, is_running=is_running, now_ms=1
    )


def span(number: int) -> RecordRange:
    return RecordRange("orders", TOPIC_ID, 0, 10 * number, 10 * number + 9)


async def test_a_journal_in_a_topic(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    async with Pool(NetSettings.parse(queue.broker.bootstrap)) as pool:
        await pool.bootstrap()
        router = Router(pool, 60)
        old = await opened(queue, router)
        for number in range(FRAMES):
            await old.append([span(number)], 100, 1)
        new = await opened(queue, router, old.position(10 * FRAMES - 5))
        assert [(span.first, span.last) for span in new.staged(10 * FRAMES - 5)] == [
            (10 * FRAMES - 5, 10 * FRAMES - 1)
        ]
        with pytest.raises(JournalFenced, match="another runner has taken over the journal"):
            await old.append([span(FRAMES)], 100, 1)
        new.complete(10 * FRAMES - 20)
        await new.append([span(FRAMES)], 100, 1)
        await new.trim()
        store = TopicStore(router, f"kshare-journal-{queue.group}")
        with anyio.fail_after(30):
            # The start of the log that ListOffsets reports may lag behind DeleteRecords.
            while len(await store.read()) > 5:
                await anyio.sleep(0.1)
        again = await opened(queue, router, new.position(10 * FRAMES))
        assert again.staged(10 * FRAMES) == (span(FRAMES),)
