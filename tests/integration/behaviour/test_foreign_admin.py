"""Admin clients of other projects: the same programs on every broker, which see the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import kafka as kafka_python
import kafka.admin as kafka_python_admin
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource as AiokafkaResource
from aiokafka.admin.config_resource import ConfigResourceType as AiokafkaResourceType
from aiokafka.admin.new_partitions import NewPartitions as AiokafkaNewPartitions
from aiokafka.admin.new_topic import NewTopic as AiokafkaNewTopic
from aiokafka.admin.records_to_delete import RecordsToDelete as AiokafkaRecordsToDelete
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports them without saying so
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.helpers.foreign_consumers import aiokafka_consumer, confluent_consumer, kafka_python_consumer
from tests.integration.java_client import JavaClient
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java]

DEADLINE_S = 60.0
RECORDS, DELETED = 10, 4
SETTINGS = {"retention.ms": "500000"}
MORE_SETTINGS = {"max.message.bytes": "2000"}
SEEN = {
    "partitions": 3,
    "retention": "500000",
    "largest": "2000",
    "listed": True,
    "read": RECORDS - DELETED,
    "state": "Stable",
    "members": 1,
    "committed": RECORDS,
    "groups": True,
    "still there": False,
}
"""What each of them sees while it creates, changes and deletes."""


def with_aiokafka(bootstrap: str, topic: str, group: str) -> dict[str, Any]:
    resource = AiokafkaResource(AiokafkaResourceType.TOPIC, topic, {**SETTINGS, **MORE_SETTINGS})
    partition = AiokafkaPartition(topic, 0)

    async def run() -> dict[str, Any]:
        seen: dict[str, Any] = {}
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        async with asyncio.timeout(DEADLINE_S):
            await admin.start()
            await admin.create_topics([AiokafkaNewTopic(topic, 2, 1, topic_configs=SETTINGS)])
            await admin.create_partitions({topic: AiokafkaNewPartitions(3)})
            await admin.alter_configs([resource])
            (described,) = await admin.describe_topics([topic])
            seen["partitions"] = len(described["partitions"])
            (response,) = await admin.describe_configs([AiokafkaResource(AiokafkaResourceType.TOPIC, topic)])
            config = {entry[0]: entry[1] for entry in response.resources[0][4]}
            seen |= {"retention": config["retention.ms"], "largest": config["max.message.bytes"]}
            seen["listed"] = topic in await admin.list_topics()
            async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
                for number in range(RECORDS):
                    await producer.send_and_wait(topic, b"%d" % number, partition=0)
            await admin.delete_records({partition: AiokafkaRecordsToDelete(before_offset=DELETED)})
            async with aiokafka_consumer(bootstrap, topic, group) as consumer:
                seen["read"] = len([await consumer.getone() for _ in range(RECORDS - DELETED)])
                await consumer.commit()
                (response,) = await admin.describe_consumer_groups([group])
                (found,) = response.groups
                seen |= {"state": found[2], "members": len(found[5])}
            offsets = await admin.list_consumer_group_offsets(group)
            seen["committed"] = offsets[partition].offset
            seen["groups"] = group in [listed[0] for listed in await admin.list_consumer_groups()]
            await admin.delete_topics([topic])
            seen["still there"] = topic in await admin.list_topics()
            await admin.close()
        return seen

    return asyncio.run(run())


def with_kafka_python(bootstrap: str, topic: str, group: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    partition = kafka_python.TopicPartition(topic, 0)
    resource_type = kafka_python_admin.ConfigResourceType.TOPIC
    admin = kafka_python.KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([kafka_python_admin.NewTopic(topic, 2, 1, topic_configs=SETTINGS)])
    admin.create_partitions({topic: kafka_python_admin.NewPartitions(3)})
    admin.alter_configs([kafka_python_admin.ConfigResource(resource_type, topic, MORE_SETTINGS)])
    (described,) = admin.describe_topics([topic])
    seen["partitions"] = len(described["partitions"])
    response = admin.describe_configs([kafka_python_admin.ConfigResource(resource_type, topic)])
    config = _values(response)
    seen |= {"retention": config["retention.ms"], "largest": config["max.message.bytes"]}
    seen["listed"] = topic in admin.list_topics()
    producer = kafka_python.KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(RECORDS):
        producer.send(topic, b"%d" % number, partition=0).get(timeout=DEADLINE_S)
    producer.close()
    admin.delete_records({partition: DELETED})
    consumer = kafka_python_consumer(bootstrap, topic, group, DEADLINE_S)
    seen["read"] = len([record for _, record in zip(range(RECORDS - DELETED), consumer, strict=False)])
    consumer.commit()
    found = admin.describe_groups([group])[group]
    seen |= {"state": found["group_state"], "members": len(found["members"])}
    consumer.close()
    seen["committed"] = admin.list_group_offsets([group])[group][partition].offset
    seen["groups"] = group in [listed["group_id"] for listed in admin.list_groups()]
    admin.delete_groups([group])
    admin.delete_topics([topic])
    seen["still there"] = topic in admin.list_topics()
    admin.close()
    return seen


def _values(response: Any) -> dict[str, Any]:
    """The settings of the only resource, whichever way they are nested."""
    while isinstance(response, list):
        (response,) = response
    while "retention.ms" not in response:
        (response,) = response.values()
    return {name: entry["value"] if isinstance(entry, dict) else entry for name, entry in response.items()}


def with_confluent(bootstrap: str, topic: str, group: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    partition = TopicPartition(topic, 0)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def of(futures: dict[Any, Any]) -> Any:
        (future,) = futures.values()
        return future.result(DEADLINE_S)

    of(admin.create_topics([NewTopic(topic, 2, 1, config=SETTINGS)]))
    of(admin.create_partitions([NewPartitions(topic, 3)]))
    change = [
        ConfigEntry(*setting, incremental_operation=AlterConfigOpType.SET)
        for setting in MORE_SETTINGS.items()
    ]
    of(
        admin.incremental_alter_configs(
            [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=change)]
        )
    )
    seen["partitions"] = len(admin.list_topics(topic, DEADLINE_S).topics[topic].partitions)
    config = of(admin.describe_configs([resource]))
    seen |= {"retention": config["retention.ms"].value, "largest": config["max.message.bytes"].value}
    seen["listed"] = topic in admin.list_topics(timeout=DEADLINE_S).topics
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(DEADLINE_S) == 0
    of(admin.delete_records([TopicPartition(topic, 0, DELETED)]))
    first, end = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
    assert of(admin.list_offsets({partition: first})).offset == DELETED
    assert of(admin.list_offsets({partition: end})).offset == RECORDS
    consumer = confluent_consumer(bootstrap, topic, group)
    read = 0
    while read < RECORDS - DELETED:
        (record,) = consumer.consume(1, DEADLINE_S)
        assert record.error() is None
        read += 1
    seen["read"] = read
    consumer.commit(asynchronous=False)
    found = of(admin.describe_consumer_groups([group]))
    seen |= {"state": found.state.name.title(), "members": len(found.members)}
    consumer.close()
    offsets = of(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [partition])]))
    seen["committed"] = offsets.topic_partitions[0].offset
    listed = admin.list_consumer_groups().result(DEADLINE_S)
    seen["groups"] = group in [listing.group_id for listing in listed.valid]
    of(admin.delete_consumer_groups([group]))
    of(admin.delete_topics([topic]))
    seen["still there"] = topic in admin.list_topics(timeout=DEADLINE_S).topics
    return seen


@pytest.mark.parametrize(
    "program", [with_aiokafka, with_kafka_python, with_confluent], ids=lambda program: program.__name__
)
def test_admin_clients_see_what_they_do(
    program: Callable[[str, str, str], dict[str, Any]], kafka: Cluster, request: pytest.FixtureRequest
) -> None:
    topic = f"administered-{program.__name__}"
    assert program(kafka.bootstrap, topic, f"readers of {topic}") == SEEN


def test_javas_admin_client_sees_what_it_does(kafka: Cluster, plain_java: JavaClient) -> None:
    topic = "administered-with-java"
    printed = plain_java.run("admin", kafka.bootstrap, topic, f"readers of {topic}")
    seen = dict(line.split("=") for line in printed)
    assert seen == {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in SEEN.items()
    } | {
        "first": str(DELETED),
        "end": str(RECORDS),
        "assigned": "3",
        "altered": "5",
    }
