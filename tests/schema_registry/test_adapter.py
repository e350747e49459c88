"""Confluent's own serializers and deserializers, with a stand-in for the registry: `tests/fakes/schema_registry.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    SchemaRegistryClient,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AsyncAvroDeserializer, AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from kshare import ConfigError, DeserializationFailed, DeserializerContext, ShareConsumer
from kshare.client.deserializer_calls import DeserializerCall
from kshare.schema_registry import RegistryUnavailable, from_registry
from kshare.testing import Broker
from tests.fakes.schema_registry import SchemaRegistry
from tests.helpers.consuming import DEADLINE_S

pytestmark = pytest.mark.anyio

AVRO = json.dumps(
    {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}, {"name": "title", "type": "string"}]}
)  # fmt: skip
JSON = json.dumps(
    {"title": "Order", "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
)
ORDER = {"n": 7, "title": "seven"}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry().running() as running:
        yield running


def client(registry: SchemaRegistry, **options: Any) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url, "max.retries": 0, **options})


def written(
    registry: SchemaRegistry, *, is_in_header: bool = False, part: str = "value", value: Any = None
) -> tuple[bytes, DeserializerContext]:
    """Avro bytes as Confluent's serializer writes them, and their context."""
    place = header_schema_id_serializer if is_in_header else prefix_schema_id_serializer
    serializer = AvroSerializer(client(registry), AVRO, conf={"schema.id.serializer": place})
    context = SerializationContext("orders", MessageField(part), [])
    data = serializer(value or ORDER, context)
    assert data is not None
    assert isinstance(context.headers, list)
    return data, DeserializerContext("orders", part, tuple(context.headers))  # type: ignore[arg-type]


@pytest.mark.lengthy
@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("is_in_header", [True, False])
async def test_avro_with_its_schema_id_in_the_bytes_or_in_a_header(
    registry: SchemaRegistry, is_in_header: bool, part: str
) -> None:
    data, context = written(registry, is_in_header=is_in_header, part=part)
    assert [name for name, _ in context.headers] == ([f"__{part}_schema_id"] if is_in_header else [])
    read = from_registry(AvroDeserializer(client(registry)))
    for _ in range(3):
        assert await read(data, context) == ORDER
    assert len(registry.fetched) == 1
    assert ("guids" in registry.fetched[0]) == is_in_header


async def test_json_schema(registry: SchemaRegistry) -> None:
    context = SerializationContext("orders", MessageField.VALUE, [])
    data = JSONSerializer(JSON, client(registry))({"n": 7}, context)
    read = from_registry(JSONDeserializer(None, schema_registry_client=client(registry)))
    assert data is not None
    assert await read(data, DeserializerContext("orders", "value")) == {"n": 7}


async def test_protobuf(registry: SchemaRegistry) -> None:
    message, context = order_message(), SerializationContext("orders", MessageField.VALUE, [])
    conf = {"use.deprecated.format": False}
    data = ProtobufSerializer(message, client(registry), conf)(message(n=7), context)
    read = from_registry(ProtobufDeserializer(message, conf, client(registry)))
    assert data is not None
    assert await read(data, DeserializerContext("orders", "value")) == message(n=7)


def order_message() -> Any:
    """A message class, as protoc would have generated it."""
    field = FieldDescriptorProto(
        name="n", number=1, type=FieldDescriptorProto.TYPE_INT32, label=FieldDescriptorProto.LABEL_OPTIONAL
    )
    file = FileDescriptorProto(
        name="order.proto", syntax="proto3", message_type=[DescriptorProto(name="Order", field=[field])]
    )
    return GetMessageClass(
        DescriptorPool().AddSerializedFile(file.SerializeToString()).message_types_by_name["Order"]
    )


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_async_deserializers(registry: SchemaRegistry, anyio_backend: str) -> None:
    data, context = written(registry, is_in_header=True)
    async with AsyncSchemaRegistryClient({"url": registry.url}) as source:
        read = from_registry(await AsyncAvroDeserializer(source))
        assert await read(data, context) == ORDER


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_async_deserializers_are_refused_on_trio(anyio_backend: str) -> None:
    read = from_registry(object.__new__(AsyncAvroDeserializer))
    with pytest.raises(ConfigError, match="work on asyncio only: use the sync ones"):
        await read(b"", DeserializerContext("orders", "value"))


async def test_the_event_loop_runs_while_a_schema_is_fetched_once(registry: SchemaRegistry) -> None:
    data, context = written(registry)
    read = from_registry(AvroDeserializer(client(registry)))
    registry.may_respond.clear()
    registry.waiting.clear()
    found = []

    async def once() -> None:
        found.append(await read(data, context))

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(once)
            while not registry.waiting.is_set():
                await anyio.sleep(0.001)
            registry.may_respond.set()
    assert found == [ORDER] * 5
    assert len(registry.fetched) == 1


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_a_registry_that_does_not_respond_is_not_the_fault_of_the_record(
    registry: SchemaRegistry, status: int
) -> None:
    data, context = written(registry)
    read = from_registry(AvroDeserializer(client(registry)))
    registry.fails_with = status
    with pytest.raises(RegistryUnavailable, match="out of order"):
        await read(data, context)
    registry.fails_with = 0
    assert await read(data, context) == ORDER


@pytest.mark.parametrize("page", [b"<html>log in</html>", b"[]", b"7"])
@pytest.mark.parametrize("is_in_header", [True, False])
async def test_nor_is_a_response_that_is_no_schema(
    registry: SchemaRegistry, page: bytes, is_in_header: bool
) -> None:
    """As of a proxy that wants users to log in: a consumer mustn't reject all records meanwhile."""
    data, context = written(registry, is_in_header=is_in_header)
    read = from_registry(AvroDeserializer(client(registry)))
    registry.page = page
    with pytest.raises(RegistryUnavailable):
        await read(data, context)
    registry.page = b""
    assert await read(data, context) == ORDER


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nor_is_it_for_async_deserializers(registry: SchemaRegistry, anyio_backend: str) -> None:
    data, context = written(registry)
    async with AsyncSchemaRegistryClient({"url": registry.url, "max.retries": 0}) as source:
        read = from_registry(await AsyncAvroDeserializer(source))
        registry.page = b"<html>log in</html>"
        with pytest.raises(RegistryUnavailable):
            await read(data, context)
        registry.page = b""
        assert await read(data, context) == ORDER


async def test_nor_is_one_that_cannot_be_reached(free_tcp_port: int) -> None:
    unreachable = SchemaRegistryClient({"url": f"http://127.0.0.1:{free_tcp_port}", "max.retries": 0})
    read = from_registry(AvroDeserializer(unreachable))
    with pytest.raises(RegistryUnavailable):
        await read(b"\0\0\0\0\1\2", DeserializerContext("orders", "value"))


@pytest.mark.parametrize("data", [b"no schema", b"\0\0\0\0\x63ab", b"\0"])
async def test_bytes_that_name_no_schema_are_the_fault_of_the_record(
    registry: SchemaRegistry, data: bytes
) -> None:
    conf = {"subject.name.strategy.type": "TOPIC"}
    read = from_registry(AvroDeserializer(client(registry), conf=conf))
    with pytest.raises(Exception) as caught:
        await read(data, DeserializerContext("orders", "value"))
    assert not isinstance(caught.value, RegistryUnavailable)


async def test_a_payload_that_does_not_match_its_schema_is_the_fault_of_the_record(
    registry: SchemaRegistry,
) -> None:
    context = SerializationContext("orders", MessageField.VALUE, [])
    data = JSONSerializer(JSON, client(registry))({"n": 7}, context)
    assert data is not None
    read = from_registry(JSONDeserializer(None, schema_registry_client=client(registry)))
    for _ in range(2):
        with pytest.raises(json.JSONDecodeError):
            await read(data[:-1], DeserializerContext("orders", "value"))
    assert await read(data, DeserializerContext("orders", "value")) == {"n": 7}


def test_what_is_no_deserializer_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs one of Confluent's deserializers, not 7"):
        from_registry(7)  # type: ignore[arg-type]


async def test_a_coroutine_is_refused() -> None:
    async def build() -> None: ...

    with pytest.raises(ConfigError, match="write `from_registry\\(await"):
        from_registry(build())  # type: ignore[arg-type]


def test_consumers_await_it_and_give_it_a_context() -> None:
    call = DeserializerCall.of(from_registry(print), "value")
    assert (call.is_async, call.takes_context) == (True, True)


async def read_all(consumer: ShareConsumer[Any], into: list[Any]) -> None:
    async for record in consumer:
        into.append(record.value["n"])  # noqa: PERF401  # some come before an error


@pytest.mark.lengthy
async def test_a_consumer_reads_values_with_it(registry: SchemaRegistry) -> None:
    orders = [written(registry, is_in_header=n % 2 == 0, value={**ORDER, "n": n}) for n in range(20)]
    got: list[Any] = []
    async with Broker(topics={"orders": 1}) as broker:
        broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        for data, context in orders:
            broker.produce("orders", [data], headers=context.headers)
        broker.produce("orders", [b"no schema"])
        reader = from_registry(AvroDeserializer(client(registry)))
        async with ShareConsumer(
            broker.bootstrap, group="g", topics=["orders"], value_deserializer=reader
        ) as consumer:
            with anyio.fail_after(DEADLINE_S), pytest.raises(DeserializationFailed, match="@20: its value"):
                await read_all(consumer, got)
    assert got == list(range(20))
