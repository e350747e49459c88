"""Records that are written together, of which some can't be written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import anyio
import anyio.lowlevel
import pytest

from kshare.admin.routing import Router
from kshare.errors import BrokerError, ConfigError, DeliveryFailed, KshareError
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.producer.records import NewRecord, PendingSend
from kshare.producer.settings import WriterSettings
from kshare.producer.writer import RecordWriter
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import MetadataRequest, ProduceRequest
from kshare.testing import Broker

pytestmark = pytest.mark.anyio


@pytest.fixture
async def writer(kshare_broker: Broker) -> AsyncIterator[RecordWriter]:
    kshare_broker.create_topic("orders", 1, {"max.message.bytes": "200"})
    async with Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool:
        await pool.bootstrap()
        async with RecordWriter(Router(pool, 5), WriterSettings.confirming(5)) as writer:
            yield writer


def kinds(outcomes: Sequence[int | KshareError]) -> list[int | type[KshareError]]:
    return [outcome if isinstance(outcome, int) else type(outcome) for outcome in outcomes]


async def test_each_record_has_an_outcome_of_its_own(kshare_broker: Broker, writer: RecordWriter) -> None:
    unwritable = NewRecord(b"c", timestamp=-2)
    records = [NewRecord(b"a"), NewRecord(b"x" * 300), unwritable, NewRecord(b"b")]
    outcomes = await writer.append_outcomes("orders", 0, records)
    assert kinds(outcomes) == [0, BrokerError, ConfigError, 1]
    assert "MESSAGE_TOO_LARGE" in str(outcomes[1])
    assert [record.value for record in kshare_broker.records("orders")] == [b"a", b"b"]


async def test_a_topic_that_cannot_be_looked_up_is_asked_for_once(
    kshare_broker: Broker, writer: RecordWriter
) -> None:
    kshare_broker.faults.add(MetadataRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    outcomes = await writer.append_outcomes("orders", 0, [NewRecord(b"a"), NewRecord(b"b")])
    assert all(isinstance(outcome, BrokerError) for outcome in outcomes)
    assert kinds(await writer.append_outcomes("orders", 0, [NewRecord(b"c")])) == [0]


async def test_closing_can_be_cancelled(kshare_broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """The task group was left open, so the user's scopes were said to be left in the wrong order."""
    kshare_broker.create_topic("orders", 1)
    kshare_broker.faults.add(ProduceRequest, times=None, swallow=True)
    async with Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool:
        await pool.bootstrap()
        with anyio.move_on_after(0.2) as scope:
            async with RecordWriter(Router(pool, 5), WriterSettings.confirming(5)) as writer:
                send = await writer.enqueue("orders", NewRecord(b"a"))
        assert scope.cancelled_caught
        await anyio.lowlevel.checkpoint()
        with pytest.raises(DeliveryFailed, match="the producer was closed"):
            await send
    assert (
        "a producer was cancelled instead of closed; not confirmed, and maybe not written: 1 record"
        in caplog.text
    )


async def test_who_waits_in_a_shielded_scope_learns_that_nothing_is_sent_any_more(
    kshare_broker: Broker,
) -> None:
    """It waited for ten seconds, as the copies of a cancelled worker did."""
    kshare_broker.create_topic("orders", 1)
    kshare_broker.faults.add(ProduceRequest, times=None, swallow=True)
    outcomes: list[str] = []

    async def wait(send: PendingSend) -> None:
        with anyio.CancelScope(shield=True), anyio.fail_after(5):
            try:
                await send
            except DeliveryFailed as failed:
                outcomes.append(str(failed))

    async with Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool:
        await pool.bootstrap()
        with anyio.move_on_after(0.2):
            async with RecordWriter(Router(pool, 5), WriterSettings.confirming(5)) as writer:
                await wait(await writer.enqueue("orders", NewRecord(b"a")))
    assert [text.endswith("(the producer was closed)") for text in outcomes] == [True]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_what_ends_a_program_is_not_in_a_group(kshare_broker: Broker, error: BaseException) -> None:
    async def end() -> None:
        async with Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool:
            await pool.bootstrap()
            async with RecordWriter(Router(pool, 5), WriterSettings.confirming(5)):
                raise error

    with pytest.raises(type(error)):
        await end()
