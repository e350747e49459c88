"""Dead letters whose value was cut: the whole record is redriven, or nothing."""

from __future__ import annotations

import pytest

from kshare import AdminClient
from kshare.admin.config import admin_settings
from kshare.admin.routing import Router
from kshare.dead_letters.dead_letter import DeadLetter, read
from kshare.dead_letters.original_records import Missing, OriginalRecords
from kshare.net.pool import Pool
from kshare.producer.records import NewRecord
from kshare.testing import Broker

pytestmark = pytest.mark.anyio

PREFIX = "__dlq.errors."


def cut_letter(broker: Broker, value: bytes, size: int, offset: int = 0) -> DeadLetter:
    context = {
        "topic": b"orders",
        "partition": b"0",
        "offset": b"%d" % offset,
        "truncated": b"%d" % size,
        "group": b"packers",
    }
    headers = [("own", b"1"), *((PREFIX + name, one) for name, one in context.items())]
    broker.produce("dead", [value], key=b"k", headers=headers)
    return read("dead", 0, broker.records("dead")[-1])


async def original(broker: Broker, letter: DeadLetter) -> NewRecord | Missing:
    async with AdminClient(broker.bootstrap) as admin:
        await admin.alter_share_group_offsets("packers", {("orders", 0): 0})
    async with Pool(admin_settings(broker.bootstrap, {})) as pool:
        await pool.bootstrap()
        return await OriginalRecords(Router(pool, 10.0)).record(letter)


async def test_the_whole_record_is_redriven_for_a_dead_letter_that_was_cut(kshare_broker: Broker) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.create_topic("dead")
    kshare_broker.produce("orders", [b"0123456789"], key=b"k", headers=[("own", b"1")])
    found = await original(kshare_broker, cut_letter(kshare_broker, b"01234", 10))
    assert isinstance(found, NewRecord)
    assert (found.value, list(found.headers)) == (b"0123456789", [("own", b"1")])


@pytest.mark.parametrize(
    ("value", "size", "offset"), [(b"01234", 10, 1), (b"01234", 11, 0), (b"1234", 10, 0)]
)
async def test_a_dead_letter_that_was_cut_is_left_if_its_record_is_gone(
    kshare_broker: Broker, value: bytes, size: int, offset: int
) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.create_topic("dead")
    kshare_broker.produce("orders", [b"0123456789"], key=b"k")
    found = await original(kshare_broker, cut_letter(kshare_broker, value, size, offset))
    assert isinstance(found, Missing)
    assert found.reason == f"its value was cut (it had {size} bytes), and orders[0]@{offset} no longer exists"
