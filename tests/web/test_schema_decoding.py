"""Decoding with a schema registry: what is shown, and that its password isn't."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kshare.web.schema_decoding import SchemaDecoder
from tests.fakes.schema_registry import SchemaRegistry

pytestmark = pytest.mark.anyio
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


def avro(registry: SchemaRegistry, value: Any) -> bytes:
    serializer = AvroSerializer(SchemaRegistryClient({"url": registry.url}), AVRO)
    data: bytes | None = serializer(value, SerializationContext("orders", MessageField.VALUE))
    assert data is not None
    return data


def framed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + data


async def test_avro_is_decoded(registry: SchemaRegistry) -> None:
    data = avro(registry, {"to": "<script>", "raw": b"\xff"})
    found = await SchemaDecoder(registry.url).content(data, "orders", "value", 4096)
    assert json.loads(found.text)["to"] == "<script>"
    assert (found.note, found.size, found.is_cut) == ("AVRO, schema 1", len(data), False)
    cut = await SchemaDecoder(registry.url).content(data, "orders", "value", 10)
    assert (len(cut.text), cut.is_cut) == (10, True)


async def test_json_is_laid_out_and_protobuf_is_not_decoded(registry: SchemaRegistry) -> None:
    registry.register("a-value", {"schema": "{}", "schemaType": "JSON"})
    registry.register("b-value", {"schema": "message A {}", "schemaType": "PROTOBUF"})
    decoder = SchemaDecoder(registry.url)
    found = await decoder.content(framed(1, b'{"a":1}'), "a", "value", 4096)
    assert (found.text, found.note) == ('{\n  "a": 1\n}', "JSON, schema 1")
    found = await decoder.content(framed(2, b"\x08"), "b", "value", 4096)
    assert found.note == "PROTOBUF, schema 2: the console decodes Avro and JSON only"


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (b"plain text", "doesn't begin with a schema id"),
        (b"", "doesn't begin with a schema id"),
        (b"\0\0\0\0\x09x", "can't be decoded"),
        (b"\0\0\0\0\x01\xff", "can't be decoded"),
    ],
)
async def test_other_bytes_are_shown_as_they_are(registry: SchemaRegistry, data: bytes, note: str) -> None:
    avro(registry, {"to": "x", "raw": b""})
    found = await SchemaDecoder(registry.url).content(data, "orders", "value", 4096)
    assert found.size == len(data)
    assert found.note.startswith(note)


async def test_a_password_is_never_shown() -> None:
    decoder = SchemaDecoder("http://ann:geheim@127.0.0.1:1")
    found = await decoder.content(framed(1, b"x"), "orders", "value", 4096)
    assert found.note.startswith("can't be decoded")
    assert "geheim" not in found.note + found.text


def test_without_a_registry_nothing_is_decoded() -> None:
    assert SchemaDecoder("http://127.0.0.1:1").problem is None
    assert "--schema-registry" in str(SchemaDecoder(None).problem)
