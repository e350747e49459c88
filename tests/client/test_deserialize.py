"""Deserializers: a record that can't be deserialized is settled separately, and its content isn't logged."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from kshare import ConfigError, DecodeError, DeserializationFailed, DeserializerContext, KshareError
from kshare.client.deserialize import OnPoison, Reader, ReadRecord
from kshare.client.record import ShareBatch, lease_of
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import Batch, read_batches
from kshare.state.lease import ACCEPT, HELD, REJECT, RELEASE, Lease

GOOD = b'{"n": %d}'
SECRET = b"hunter2"


HEADERS = (("schema", b"7"), ("trace", None))


def stored(values: Sequence[bytes | None]) -> list[Batch]:
    builder = BatchBuilder()
    for offset, value in enumerate(values):
        builder.append(value, key=b"k%d" % offset if offset else None, timestamp=0, headers=HEADERS)
    return list(read_batches(builder.build()))


def batch_of(*values: bytes | None) -> ShareBatch:
    return ShareBatch("orders", Lease((b"t" * 16, 3), 0, len(values) - 1, 1), stored(values))


def read(reader: Reader, batch: ShareBatch) -> Iterator[ReadRecord[Any, Any]]:
    again = ShareBatch(batch.topic, lease_of(batch), stored(batch.values()), reader)
    return cast("Iterator[ReadRecord[Any, Any]]", iter(again))


def poisoned(on_poison: OnPoison = "raise") -> tuple[Reader, ShareBatch]:
    return Reader(None, json.loads, on_poison), batch_of(GOOD % 0, SECRET, GOOD % 2)


def test_keys_and_values_are_deserialized() -> None:
    reader = Reader(bytes.decode, json.loads)
    found = list(read(reader, batch_of(GOOD % 0, GOOD % 1)))
    assert [(record.key, record.value) for record in found] == [(None, {"n": 0}), ("k1", {"n": 1})]
    one = found[1]
    assert isinstance(one, ReadRecord)
    assert (one.topic, one.partition, one.offset, one.delivery_count) == ("orders", 3, 1, 1)
    one.accept()
    assert lease_of(one.batch).states[1] == ACCEPT


def test_null_values_are_not_deserialized() -> None:
    seen: list[bytes] = []
    (record,) = read(Reader(None, seen.append), batch_of(None))
    assert (record.value, seen) == (None, [])


@pytest.mark.parametrize(("on_poison", "state"), [("reject", REJECT), ("release", RELEASE)])
def test_poisoned_record_is_settled_separately(
    on_poison: OnPoison, state: int, caplog: pytest.LogCaptureFixture
) -> None:
    reader, batch = poisoned(on_poison)
    with caplog.at_level(logging.DEBUG, "kshare"):
        assert [record.value for record in read(reader, batch)] == [{"n": 0}, {"n": 2}]
    assert list(lease_of(batch).states) == [HELD, state, HELD]
    batch.accept()
    assert list(lease_of(batch).states) == [ACCEPT, state, ACCEPT]
    (line,) = caplog.messages
    assert line.startswith(
        "1 record of orders[3] (offset 1): value can't be deserialized (JSONDecodeError); re"
    )
    assert SECRET.decode() not in caplog.text


def test_raised_poison_can_be_settled_and_the_batch_continues() -> None:
    reader, batch = poisoned()
    records = read(reader, batch)
    assert next(records).offset == 0
    with pytest.raises(DeserializationFailed, match=r"orders\[3\]@1: its value") as caught:
        next(records)
    assert SECRET.decode() not in str(caught.value)
    assert isinstance(caught.value, KshareError)
    assert (caught.value.part, caught.value.record.value) == ("value", SECRET)
    assert list(lease_of(batch).states) == [HELD] * 3
    caught.value.record.reject()
    assert [record.offset for record in records] == [2]
    assert list(lease_of(batch).states) == [HELD, REJECT, HELD]


def test_key_deserializer_may_fail_too() -> None:
    def refuse(data: bytes) -> Any:
        raise StopIteration

    with pytest.raises(DeserializationFailed, match="its key can't be deserialized"):
        list(read(Reader(refuse, None), batch_of(GOOD % 0, GOOD % 1)))


def test_interrupts_are_not_poison() -> None:
    def interrupt(data: bytes) -> Any:
        raise KeyboardInterrupt

    batch = batch_of(GOOD % 0)
    with pytest.raises(KeyboardInterrupt):
        list(read(Reader(None, interrupt, "reject"), batch))
    assert list(lease_of(batch).states) == [HELD]


def test_lost_records_are_not_deserialized() -> None:
    reader, batch = poisoned()
    records = read(reader, batch)
    next(records)
    lease_of(batch).lose()
    assert list(records) == []


def test_poison_in_a_lost_lease_is_ignored() -> None:
    batch = batch_of(GOOD % 0)

    def lose(data: bytes) -> Any:
        lease_of(batch).lose()
        raise ValueError

    assert list(read(Reader(None, lose, "reject"), batch)) == []


def test_a_function_of_two_arguments_gets_the_context() -> None:
    seen: list[tuple[bytes, DeserializerContext]] = []

    def see(data: bytes, context: DeserializerContext) -> str:
        seen.append((data, context))
        return f"{context.part} of {context.topic}"

    found = list(read(Reader(see, see), batch_of(None, b"v")))
    assert [(record.key, record.value) for record in found] == [
        (None, None),
        ("key of orders", "value of orders"),
    ]
    assert seen == [
        (b"k1", DeserializerContext("orders", "key", HEADERS, 3, 1)),
        (b"v", DeserializerContext("orders", "value", HEADERS, 3, 1)),
    ]


def test_contexts_do_not_change() -> None:
    with pytest.raises(AttributeError):
        DeserializerContext("orders", "key").topic = "other"  # type: ignore[misc]


@pytest.mark.parametrize("on_poison", ["reject", "release"])
def test_an_error_that_is_not_about_the_record_is_always_raised(on_poison: OnPoison) -> None:
    def refuse(data: bytes) -> Any:
        raise KshareError("the registry is down")

    batch = batch_of(GOOD % 0)
    with pytest.raises(DeserializationFailed) as caught:
        list(read(Reader(None, refuse, on_poison), batch))
    assert isinstance(caught.value.__cause__, KshareError)
    assert list(lease_of(batch).states) == [HELD]


def test_bytes_that_our_own_codec_cannot_decode_are_poison() -> None:
    def decode(data: bytes) -> Any:
        raise DecodeError("value", 0, "it is empty")

    batch = batch_of(GOOD % 0)
    assert list(read(Reader(None, decode, "reject"), batch)) == []
    assert list(lease_of(batch).states) == [REJECT]


def test_a_function_that_returns_a_coroutine_must_be_async() -> None:
    async def later(data: bytes) -> int:
        return len(data)

    reader = Reader(None, lambda data: later(data), "reject")
    with pytest.raises(DeserializationFailed) as caught:
        list(read(reader, batch_of(GOOD % 0)))
    assert isinstance(caught.value.__cause__, ConfigError)
    assert "wrap it in an `async def`" in str(caught.value.__cause__)
