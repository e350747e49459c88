"""Static types of a consumer's records. mypy checks this module."""

from __future__ import annotations

from typing import assert_type

import kshare.sync
from kshare import ReadRecord, ShareBatch, ShareConsumer, ShareRecord


async def records_are_typed_by_the_deserializers() -> None:
    async for plain in ShareConsumer("a:1", group="g", topics=["t"]):
        assert_type(plain, ShareRecord)
        assert_type(plain.value, bytes | None)
    async for numbered in ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=int):
        assert_type(numbered, ReadRecord[bytes | None, int | None])
        assert_type(numbered.value, int | None)
        numbered.accept()
    async for keyed in ShareConsumer("a:1", group="g", topics=["t"], key_deserializer=bytes.hex):
        assert_type(keyed.key, str | None)
        assert_type(keyed.value, bytes | None)
    both = ShareConsumer("a:1", group="g", topics=["t"], key_deserializer=bytes.hex, value_deserializer=int)
    async for record in both:
        assert_type(record.key, str | None)
        assert_type(record.value, int | None)


async def so_are_those_of_batches() -> None:
    numbered = ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=int)
    async for batch in numbered.batches():
        assert_type(batch, ShareBatch[ReadRecord[bytes | None, int | None]])
        for record in batch:
            assert_type(record.value, int | None)
        batch.accept()
    for record in await numbered.next_batch():
        assert_type(record, ReadRecord[bytes | None, int | None])
    async for plain in ShareConsumer("a:1", group="g", topics=["t"]).batches():
        assert_type(plain, ShareBatch)
        assert_type(next(iter(plain)).value, bytes | None)
        takes_any_batch(plain)
    takes_any_batch(batch)


def takes_any_batch(batch: ShareBatch) -> None:
    batch.accept()


def so_they_are_without_an_event_loop() -> None:
    for plain in kshare.sync.ShareConsumer("a:1", group="g", topics=["t"]):
        assert_type(plain, ShareRecord)
    for numbered in kshare.sync.ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=int):
        assert_type(numbered.value, int | None)
    for batch in kshare.sync.ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=int).batches():
        assert_type([record.value for record in batch], list[int | None])


def a_consumer_of_more_is_a_consumer_of_records() -> ShareConsumer:
    return ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=int)


def test_type_parameters_exist_at_run_time() -> None:
    made = a_consumer_of_more_is_a_consumer_of_records()
    assert type(made) is ShareConsumer
    assert ShareConsumer[ShareRecord] is not None
    assert ShareBatch[ShareRecord] is ShareBatch
