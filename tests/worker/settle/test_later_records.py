"""Looking for later records of a run: many who ask at once are answered by one pass, and each gets its own response."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
import pytest

from kshare.admin.record_deletion import delete_records_before
from kshare.admin.routing import Router
from kshare.errors import BrokerError, CorruptBatchError
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import FetchRequest, FetchResponse
from kshare.testing import Broker
from kshare.worker.settle.later_records import LaterRecords

pytestmark = pytest.mark.anyio


def mark(run: int) -> tuple[str, bytes]:
    return "run", str(run).encode()


@pytest.fixture
async def router(kshare_broker: Broker) -> AsyncIterator[Router]:
    async with Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool:
        await pool.bootstrap()
        yield Router(pool, 5)


@pytest.fixture
async def later(kshare_broker: Broker, router: Router) -> LaterRecords:
    """Of each run, the copy has the number of the run as its offset. The first ten are over: their marks follow."""
    write(kshare_broker, [*range(20), *range(10)])
    return LaterRecords(router)


def write(broker: Broker, runs: list[int]) -> None:
    broker.create_topic("retries", 1)
    for run in runs:
        broker.produce("retries", [b""], headers=[mark(run)])


async def test_many_questions_are_responded_at_once(kshare_broker: Broker, later: LaterRecords) -> None:
    responses: dict[int, bool] = {}
    slow = kshare_broker.faults.add(FetchRequest, times=None, after_ms=50)

    async def ask(run: int) -> None:
        responses[run] = await later.has("retries", 0, run, mark(run))

    async with anyio.create_task_group() as tasks:
        for run in range(
            20
        ):  # in this order: those with lower offsets wouldn't be answered by a later one's pass
            tasks.start_soon(ask, run)
            await anyio.lowlevel.checkpoint()
    assert responses == {run: run < 10 for run in range(20)}
    assert slow.hits <= 2
    assert not await later.has("retries", 0, 29, mark(9))


async def test_an_error_is_for_the_one_who_asked_first(kshare_broker: Broker, later: LaterRecords) -> None:
    responses: dict[int, bool | int] = {}
    kshare_broker.faults.add(FetchRequest, after_ms=50, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async def ask(run: int) -> None:
        try:
            responses[run] = await later.has("retries", 0, run, mark(run))
        except BrokerError as error:
            responses[run] = error.code

    async with anyio.create_task_group() as tasks:
        for run in (9, 10, 8):
            tasks.start_soon(ask, run)
            await anyio.lowlevel.checkpoint()
    assert sorted(responses.values()) == [False, True, ErrorCode.TOPIC_AUTHORIZATION_FAILED]


async def test_others_get_responses_if_the_first_one_is_cancelled(
    kshare_broker: Broker, later: LaterRecords
) -> None:
    kshare_broker.faults.add(FetchRequest, after_ms=200)
    responses: list[bool] = []

    async def ask() -> None:
        responses.append(await later.has("retries", 0, 9, mark(9)))

    async with anyio.create_task_group() as tasks:
        with anyio.move_on_after(0.05):
            tasks.start_soon(ask)
            tasks.start_soon(ask)
            await later.has("retries", 0, 10, mark(10))
    assert responses == [True, True]


async def test_a_damaged_batch_is_for_those_that_have_to_read_it(
    kshare_broker: Broker, later: LaterRecords
) -> None:
    def spoil(response: FetchResponse) -> None:
        row = response.responses[0].partitions[0]
        records = bytearray(row.records or b"")
        records[70] ^= 1  # of the first batch, which has offset 1
        row.records = bytes(records)

    kshare_broker.faults.add(
        FetchRequest,
        times=None,
        when=lambda request: request.topics[0].partitions[0].fetch_offset == 1,
        after_ms=20,
        change=spoil,
    )
    responses: list[bool | str] = []

    async def ask(run: int) -> None:
        try:
            responses.append(await later.has("retries", 0, run, mark(run)))
        except CorruptBatchError:
            responses.append("damaged")

    async with anyio.create_task_group() as tasks:
        for run in (0, 9, 0, 10):
            tasks.start_soon(ask, run)
            await anyio.lowlevel.checkpoint()
    assert responses == ["damaged", True, "damaged", False]


async def test_a_topic_that_was_created_again(kshare_broker: Broker, later: LaterRecords) -> None:
    assert await later.has("retries", 0, 9, mark(9))
    kshare_broker.delete_topic("retries")
    write(kshare_broker, [3, 4, 3])
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_ID"):
        await later.has("retries", 0, 0, mark(3))
    assert await later.has("retries", 0, 0, mark(3))
    assert not await later.has("retries", 0, 1, mark(4))


async def test_what_is_deleted_is_no_hindrance(router: Router, later: LaterRecords) -> None:
    await delete_records_before(router, "retries", 0, 25)
    assert not await later.has("retries", 0, 3, mark(3))
    assert await later.has("retries", 0, 3, mark(9))


async def test_nothing_is_left_of_a_question_that_failed(kshare_broker: Broker, later: LaterRecords) -> None:
    """It would be asked again with each later one."""
    with anyio.move_on_after(0.05):
        kshare_broker.faults.add(FetchRequest, after_ms=200)
        await later.has("retries", 0, 0, mark(3))
    fetches: list[int] = []

    def note(request: FetchRequest) -> bool:
        fetches.append(request.topics[0].partitions[0].fetch_offset)
        return False

    kshare_broker.faults.add(FetchRequest, times=None, when=note)
    assert await later.has("retries", 0, 19, mark(3))
    assert fetches == [20]
