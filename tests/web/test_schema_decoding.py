"""Decoding with a schema registry: what is shown, and that its password isn't."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kshare.web.content import Content
from kshare.web.schema_decoding import SchemaDecoder
from tests.fakes.schema_registry import SchemaRegistry

pytestmark = pytest.mark.anyio
Decoding = Callable[..., Awaitable[Content]]
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "to", "type": "string"}, {"name": "raw", "type": "bytes"}],
    }
)


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry().running() as running:
        yield running


@pytest.fixture
async def decoding(registry: SchemaRegistry) -> AsyncIterator[Decoding]:
    async with decoding_with(SchemaDecoder(registry.url, limit_s=60)) as content:
        yield content


@asynccontextmanager
async def decoding_with(decoder: SchemaDecoder) -> AsyncIterator[Decoding]:
    async def content(data: bytes, limit: int = 4096) -> Content:
        return await decoder.content(data, "orders", "value", limit, decoder.page_deadline())

    try:
        yield content
    finally:
        decoder.close()


def avro(registry: SchemaRegistry, value: Any) -> bytes:
    serializer = AvroSerializer(SchemaRegistryClient({"url": registry.url}), AVRO)
    data: bytes | None = serializer(value, SerializationContext("orders", MessageField.VALUE))
    assert data is not None
    return data


def framed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + data


@pytest.mark.lengthy
async def test_avro_is_decoded(registry: SchemaRegistry, decoding: Decoding) -> None:
    data = avro(registry, {"to": "<script>", "raw": b"\xff"})
    found = await decoding(data)
    assert json.loads(found.text)["to"] == "<script>"
    assert (found.note, found.size, found.is_cut) == ("AVRO, schema 1", len(data), False)
    cut = await decoding(data, 10)
    assert (len(cut.text), cut.is_cut) == (10, True)


@pytest.mark.lengthy
async def test_json_is_laid_out_and_protobuf_is_not_decoded(
    registry: SchemaRegistry, decoding: Decoding
) -> None:
    registry.register("a-value", {"schema": "{}", "schemaType": "JSON"})
    registry.register("b-value", {"schema": "message A {}", "schemaType": "PROTOBUF"})
    found = await decoding(framed(1, b'{"a":1}'))
    assert (found.text, found.note) == ('{\n  "a": 1\n}', "JSON, schema 1")
    found = await decoding(framed(2, b"\x08"))
    assert found.note == "PROTOBUF, schema 2: the console decodes Avro and JSON only"


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("data", "note"),
    [
        (b"plain text", "doesn't begin with a schema id"),
        (b"", "doesn't begin with a schema id"),
        (b"\0\0\0\0\x09x", "can't be decoded"),
        (b"\0\0\0\0\x01\xff", "can't be decoded"),
    ],
)
async def test_other_bytes_are_shown_as_they_are(
    registry: SchemaRegistry, decoding: Decoding, data: bytes, note: str
) -> None:
    avro(registry, {"to": "x", "raw": b""})
    found = await decoding(data)
    assert found.size == len(data)
    assert found.note.startswith(note)


@pytest.mark.lengthy
async def test_a_password_is_never_shown() -> None:
    async with decoding_with(SchemaDecoder("http://ann:geheim@127.0.0.1:1")) as decoding:
        found = await decoding(framed(1, b"x"))
    assert found.note.startswith("can't be decoded")
    assert "geheim" not in found.note + found.text


NULLS = json.dumps({"type": "array", "items": "null"})
TREE = json.dumps(
    {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "below", "type": ["null", "Tree"]}],
    }
)


def varint(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    return b"".join(
        bytes([(value >> at & 0x7F) | (0x80 if value >> at + 7 else 0)])
        for at in range(0, max(1, value.bit_length()), 7)
    )


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("schema", "bomb"),
    [(NULLS, varint(2**40) + b"\0"), (TREE, b"\x02" * 1_000_000 + b"\0")],
    ids=["2^40 items in seven bytes", "a million levels"],
)
async def test_bytes_that_stand_for_too_much_cost_one_record(
    registry: SchemaRegistry, schema: str, bomb: bytes
) -> None:
    """They stopped the whole process: Confluent's client holds the interpreter's lock, and C's stack is small."""
    good = avro(registry, {"to": "Ann", "raw": b""})
    registry.register("bombs-value", {"schema": schema})
    async with decoding_with(SchemaDecoder(registry.url, limit_s=20)) as decoding:
        found = await decoding(framed(2, bomb))
        assert found.note.startswith("can't be decoded: ")
        assert "too much" in found.note
        assert found.size == 5 + len(bomb)
        assert json.loads((await decoding(good)).text)["to"] == "Ann"


@pytest.mark.lengthy
async def test_a_record_that_takes_too_long_is_given_up(registry: SchemaRegistry) -> None:
    avro(registry, {"to": "Ann", "raw": b""})
    registry.may_respond.clear()
    async with decoding_with(SchemaDecoder(registry.url, limit_s=0.05)) as decoding:
        found = await decoding(framed(1, b"x"))
    assert found.note.startswith("can't be decoded: it took longer than 0.05 seconds")


async def test_records_of_a_page_have_a_time_limit_in_sum(registry: SchemaRegistry) -> None:
    good = avro(registry, {"to": "Ann", "raw": b""})
    async with decoding_with(SchemaDecoder(registry.url, page_s=0)) as decoding:
        found = await decoding(good)
    assert found.note == "not decoded: other records of this page took too long"


@pytest.mark.lengthy
async def test_the_event_loop_goes_on_meanwhile(registry: SchemaRegistry) -> None:
    good = avro(registry, {"to": "Ann", "raw": b""})
    registry.register("bombs-value", {"schema": NULLS})
    turns = 0
    async with decoding_with(SchemaDecoder(registry.url)) as decoding:
        await decoding(good)
        async with anyio.create_task_group() as tasks:

            async def decode() -> None:
                await decoding(framed(2, varint(2**40) + b"\0"))
                tasks.cancel_scope.cancel()

            tasks.start_soon(decode)
            while True:
                await anyio.sleep(0.001)
                turns += 1
    assert turns > 10


def test_without_a_registry_nothing_is_decoded() -> None:
    assert SchemaDecoder("http://127.0.0.1:1").problem is None
    assert "--schema-registry" in str(SchemaDecoder(None).problem)
