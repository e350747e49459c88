"""Avro through Confluent's deserializer, in a consumer. Confluent's client brings a registry in memory."""

import asyncio
import json

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kshare import ShareConsumer
from kshare.schema_registry import from_registry
from kshare.testing import Broker

SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]})


async def main(bootstrap: str, registry: SchemaRegistryClient) -> None:
    avro = from_registry(AvroDeserializer(registry))
    async with ShareConsumer(
        bootstrap, group="readers", topics=["orders"], value_deserializer=avro
    ) as consumer:
        async for record in consumer:
            assert record.value == {"n": 7}
            break


with Broker(topics={"orders": 1}) as broker:
    registry = SchemaRegistryClient.new_client({"url": "mock://orders"})
    order = AvroSerializer(registry, SCHEMA)({"n": 7}, SerializationContext("orders", MessageField.VALUE))
    broker.set_group_config("readers", {"share.auto.offset.reset": "earliest"})
    broker.produce("orders", [order])
    asyncio.run(main(broker.bootstrap, registry))
