"""Dead letters whose value was cut: the whole record is redriven, or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshare import AdminClient
from kshare.admin.config import admin_settings
from kshare.admin.routing import Router
from kshare.dead_letters.dead_letter import DeadLetter, Origin, read
from kshare.dead_letters.original_records import Missing, OriginalRecords
from kshare.net.pool import Pool
from kshare.producer.records import NewRecord
from kshare.testing import Broker
from tests.fakes.bombs import append, many_headers
from tests.helpers.lost_records import lose

pytestmark = pytest.mark.anyio

PREFIX = "__dlq.errors."
HEADERS = [
    (f"{PREFIX}topic", b"orders"),
    (f"{PREFIX}partition", b"0"),
    (f"{PREFIX}offset", b"7"),
    (f"{PREFIX}group", b"packers"),
]


def cut_letter(broker: Broker, value: bytes, size: int, offset: int = 0) -> DeadLetter:
    context = {
        "topic": b"orders",
        "partition": b"0",
        "offset": b"%d" % offset,
        "truncated": b"%d" % size,
        "group": b"packers",
    }
    headers = [("own", b"1"), *((PREFIX + name, value) for name, value in context.items())]
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
    ("value", "size", "offset", "problem"),
    [
        (b"01234", 10, 1, "orders[0]@1 no longer exists"),
        (b"01234", 10, 2, "orders[0]@2 is beyond the end of its log"),
        (b"01234", 11, 0, "orders[0]@0 is another record"),
        (b"1234", 10, 0, "orders[0]@0 is another record"),
    ],
)
async def test_a_dead_letter_that_was_cut_is_left_if_its_record_is_not_there(
    kshare_broker: Broker, value: bytes, size: int, offset: int, problem: str
) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.create_topic("dead")
    kshare_broker.produce("orders", [b"0123456789"], key=b"k")
    lose(kshare_broker, "orders", 0, 2)
    found = await original(kshare_broker, cut_letter(kshare_broker, value, size, offset))
    assert isinstance(found, Missing)
    assert found.reason == f"its value was cut (it had {size} bytes), and {problem}"


async def test_a_record_with_very_many_headers_is_not_copied(kshare_broker: Broker) -> None:
    """Five million of them would take a gigabyte, beside the others that are read ahead."""
    kshare_broker.create_topic("orders")
    kshare_broker.create_topic("dead")
    for count in (1, 100_001):
        append(kshare_broker, "orders", many_headers(count))
    letter = cut_letter(kshare_broker, b"", 0, 1)
    found = await original(kshare_broker, replace(letter, key=None))
    assert isinstance(found, Missing)
    assert (
        found.reason == "orders[0]@1 isn't copied: it has 100,001 headers, and kshare copies at most 100,000"
    )


async def test_a_copy_is_not_used_if_its_headers_are_not_all_read(kshare_broker: Broker) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.create_topic("dead")
    lose(kshare_broker, "orders", 0, 8)
    append(kshare_broker, "dead", many_headers(5_000, tuple(HEADERS)))
    letter = read("dead", 0, kshare_broker.records("dead")[0])
    assert (letter.origin, letter.more_headers) == (Origin("orders", 0, 7), 4_000)
    found = await original(kshare_broker, letter)
    assert isinstance(found, Missing)
    assert "it has more" in found.reason
