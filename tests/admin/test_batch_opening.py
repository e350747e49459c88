"""The event loop goes on while a batch is decompressed, wherever records are read to be shown."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable

import anyio
import pytest

from kshare.admin import record_search
from kshare.admin.config import admin_settings
from kshare.admin.record_search import SearchLimits, search_records
from kshare.admin.routing import Router
from kshare.dead_letters import original_records
from kshare.dead_letters import read as letter_reading
from kshare.dead_letters.dead_letter import DeadLetter, Origin
from kshare.dead_letters.original_records import OriginalRecords
from kshare.dead_letters.unreadable import Unreadable
from kshare.net.pool import Pool
from kshare.producer.records import NewRecord
from kshare.protocol.compression import Buffer
from kshare.protocol.decompression_budget import DecompressionBudget
from kshare.testing import Broker
from tests.fakes.bombs import append, bomb

pytestmark = pytest.mark.anyio
DEADLINE_S = 10.0


class WaitingBudget(DecompressionBudget):
    """Decompresses when the event loop says so."""

    def __init__(self) -> None:
        super().__init__(1 << 20)
        self.began, self.may_end = threading.Event(), threading.Event()

    def decompress(self, codec: int, data: Buffer) -> memoryview:
        self.began.set()
        assert self.may_end.wait(DEADLINE_S), "the event loop is blocked"
        return super().decompress(codec, data)


async def search(router: Router) -> bool:
    found = await search_records(router, "orders", {0: (0, 1)}, lambda _, record: True, SearchLimits())
    return len(found.found) == 1


async def read_letters(router: Router) -> bool:
    where = ("orders", 0)
    found = letter_reading.letters(router, "orders", {where: 0}, {where: 1}, Unreadable())
    return len([batch async for batch in found]) == 1


async def find_original(router: Router) -> bool:
    letter = DeadLetter("dlq.orders", 0, 0, 1 << 60, None, None, {}, (), Origin("orders", 0, 0))
    return isinstance(await OriginalRecords(router).record(letter, "orders"), NewRecord)


@pytest.mark.parametrize("work", [search, read_letters, find_original])
async def test_the_event_loop_goes_on_meanwhile(
    kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch, work: Callable[[Router], Awaitable[bool]]
) -> None:
    kshare_broker.create_topic("orders")
    append(kshare_broker, "orders", bomb(1000))
    budget = WaitingBudget()
    monkeypatch.setattr(record_search, "reading_budget", lambda: budget)
    monkeypatch.setattr(original_records, "reading_budget", lambda: budget)
    monkeypatch.setattr(letter_reading, "counting_budget", lambda: budget)

    async def allow() -> None:
        while not budget.began.is_set():
            await anyio.sleep(0.001)
        budget.may_end.set()

    async with Pool(admin_settings(kshare_broker.bootstrap, {})) as pool, anyio.create_task_group() as tasks:
        await pool.bootstrap()
        tasks.start_soon(allow)
        assert await work(Router(pool, DEADLINE_S))
