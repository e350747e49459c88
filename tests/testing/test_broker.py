"""kshare.testing as its users see it: with our own consumer and with other clients."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import kshare.sync
from kshare import ShareConsumer
from kshare.broker.authorizer import AclResource, AclRule, Operation
from kshare.broker.profiles import RELEASES, Release
from kshare.broker.start_checks import AUTHORIZER
from kshare.errors import ConfigError, KshareError
from kshare.protocol.messages import AlterShareGroupOffsetsRequest, FetchRequest, MetadataRequest
from kshare.protocol.messages import alter_share_group_offsets_request as alter_request
from kshare.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.testing import Broker, ManualClock
from tests.helpers.plain_client import plain_client

pytestmark = pytest.mark.usefixtures("swept")
DEADLINE_S = 30.0
_LITERAL, _ALLOW = 3, 3
"""The numbers of a pattern type and of a permission type."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as broker:
        yield broker


def quiet(broker: Broker, **settings: str) -> dict[str, str | int | float | bool]:
    """Options for librdkafka, which otherwise prints every broken connection to stderr."""
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bootstrap.servers": broker.bootstrap, "log_level": 0, **dotted}


@pytest.mark.lengthy
def test_kafka_python_produces_and_consumes(broker: Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type="gzip")
    for number in range(500):
        producer.send("orders", b"%d" % number, key=b"k%d" % number)
    producer.flush(timeout=DEADLINE_S)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition("orders", 0), TopicPartition("orders", 1)])
    found: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < 500 and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=1000).values():
            found += [record.value for record in records]
    consumer.close()
    assert sorted(found, key=int) == [b"%d" % number for number in range(500)]
    assert len(broker.records("orders")) == 500


@pytest.mark.lengthy
def test_confluent_kafka_consumes_as_a_group_and_continues_where_it_stopped(broker: Broker) -> None:
    broker.produce("orders", [b"%d" % number for number in range(100)])
    for expected in ([b"%d" % number for number in range(100)], [b"new"]):
        consumer = Consumer(quiet(broker, group_id="readers", auto_offset_reset="earliest"))
        consumer.subscribe(["orders"])
        found: list[bytes | None] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(found) < len(expected) and time.monotonic() < deadline:
            found += [message.value() for message in consumer.consume(1000, 0.1)]
        assert found == expected
        consumer.commit(asynchronous=False)
        consumer.close()
        broker.produce("orders", [b"new"])


@pytest.mark.lengthy
def test_transactions_of_confluent_kafka(broker: Broker) -> None:
    producer = Producer(quiet(broker, transactional_id="tx"))
    producer.init_transactions(DEADLINE_S)
    for number, end in enumerate((producer.commit_transaction, producer.abort_transaction) * 2):
        producer.begin_transaction()
        producer.produce("orders", b"%d" % number, partition=0)
        producer.flush(DEADLINE_S)
        end(DEADLINE_S)
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    consumer.assign([TopicPartition("orders", 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < 2 and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500).values():
            found += [record.value for record in records]
    consumer.close()
    assert found == [b"0", b"2"]
    assert [record.value for record in broker.records("orders")] == [b"0", b"1", b"2", b"3"]
    assert [record.value for record in broker.records("orders", committed_only=True)] == [b"0", b"2"]


@pytest.mark.lengthy
def test_records_of_open_transactions_are_not_committed(broker: Broker) -> None:
    """Records after the first one of an open transaction aren't read by `read_committed` readers either."""
    broker.produce("orders", [b"before"])
    producer = Producer(quiet(broker, transactional_id="tx"))
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce("orders", b"open", partition=0)
    producer.flush(DEADLINE_S)
    broker.produce("orders", [b"after"])
    assert [record.value for record in broker.records("orders", committed_only=True)] == [b"before"]
    producer.commit_transaction(DEADLINE_S)
    values = [record.value for record in broker.records("orders", committed_only=True)]
    assert values == [b"before", b"open", b"after"]


def test_records_of_one_partition(broker: Broker) -> None:
    broker.produce("orders", [b"a"])
    broker.produce("orders", [b"b"], partition=1)
    assert [record.value for record in broker.records("orders", partition=1)] == [b"b"]
    assert [record.value for record in broker.records("orders")] == [b"a", b"b"]


def test_number_of_partitions_follows_the_broker_setting() -> None:
    with Broker(settings={"num.partitions": "7"}) as broker:
        broker.create_topic("orders")
        broker.create_topic("returns", 2)
        broker.produce("orders", [b"last"], partition=6)
        with pytest.raises(ConfigError, match="it has 2 partitions"):
            broker.produce("returns", [b"none"], partition=2)


@pytest.mark.lengthy
def test_confluent_kafkas_admin_client(broker: Broker) -> None:
    admin = AdminClient(quiet(broker))
    for future in admin.create_topics([NewTopic("fresh", 3, 1, config={"retention.ms": "5000"})]).values():
        future.result(DEADLINE_S)
    for future in admin.create_partitions([NewPartitions("fresh", 5)]).values():
        future.result(DEADLINE_S)
    assert len(admin.list_topics(timeout=DEADLINE_S).topics["fresh"].partitions) == 5
    (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "fresh")]).values()
    assert described.result(DEADLINE_S)["retention.ms"].value == "5000"
    for future in admin.delete_topics(["fresh"]).values():
        future.result(DEADLINE_S)
    assert "fresh" not in admin.list_topics(timeout=DEADLINE_S).topics


@pytest.mark.lengthy
def test_process_that_does_not_stop_it_ends_nevertheless() -> None:
    code = "from kshare.testing import Broker; Broker().start()"
    done = subprocess.run([sys.executable, "-c", code], timeout=DEADLINE_S, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.lengthy
def test_topics_are_created_when_written_to(broker: Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send("unheard.of", b"x").get(timeout=DEADLINE_S)
    producer.close()
    assert [record.value for record in broker.records("unheard.of")] == [b"x"]


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_our_consumer_in_the_tests_own_event_loop() -> None:
    async with Broker(topics={"orders": 1}) as broker:
        broker.set_group_config("workers", {"share.auto.offset.reset": "earliest"})
        broker.produce("orders", [b"a", b"b", b"c"])
        found = []
        with anyio.fail_after(DEADLINE_S):
            async with ShareConsumer(broker.bootstrap, group="workers", topics=["orders"]) as consumer:
                async for record in consumer:
                    found.append(record.value)
                    if len(found) == 3:
                        break
        assert found == [b"a", b"b", b"c"]


@pytest.mark.lengthy
@pytest.mark.anyio
@pytest.mark.parametrize("release", RELEASES)
async def test_every_supported_release(release: Release) -> None:
    async with Broker(topics={"orders": 1}, release=release) as broker:
        broker.set_group_config("workers", {"share.auto.offset.reset": "earliest"})
        broker.produce("orders", [b"a", b"b"])
        found = []
        with anyio.fail_after(DEADLINE_S):
            async with ShareConsumer(broker.bootstrap, group="workers", topics=["orders"]) as consumer:
                async for record in consumer:
                    found.append(record.value)
                    if len(found) == 2:
                        break
        assert found == [b"a", b"b"]
        apis = broker.call(lambda: broker.state.profile.versions)
        assert (apis[78][1] >= 2) == (release != "4.1")


@pytest.mark.lengthy
@pytest.mark.parametrize("release", ["4.1", "4.3"])
def test_altered_offsets_are_ignored_before_4_2(release: Release) -> None:
    """As a real 4.1.2 does for any client: no error, no topics in the response, no changes."""
    partitions = [alter_request.AlterShareGroupOffsetsRequestPartition(0, 2)]
    topics = [alter_request.AlterShareGroupOffsetsRequestTopic("orders", partitions)]
    with Broker(topics={"orders": 1}, release=release) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        with plain_client((host, int(port))) as client:
            response = client.ask(AlterShareGroupOffsetsRequest("workers", topics))
        is_carried_out = release != "4.1"
        assert (response.error_code, len(response.responses)) == (0, is_carried_out)
        assert broker.call(lambda: broker.state.share_groups.has("workers")) == is_carried_out


@pytest.mark.lengthy
def test_three_nodes_share_the_work_and_one_may_stop(kshare_cluster: Broker) -> None:
    kshare_cluster.create_topic("orders", 3)
    addresses = kshare_cluster.bootstrap.split(",")
    assert len(set(addresses)) == 3
    producer = KafkaProducer(bootstrap_servers=addresses[1:])
    for partition in range(3):
        producer.send("orders", b"%d" % partition, partition=partition).get(timeout=DEADLINE_S)
    kshare_cluster.stop_node(1)
    for partition in range(3):
        producer.send("orders", b"again %d" % partition, partition=partition).get(timeout=DEADLINE_S)
    producer.close()
    kshare_cluster.start_node(1)
    assert kshare_cluster.bootstrap.split(",") == addresses
    assert len(kshare_cluster.records("orders")) == 6


@pytest.mark.lengthy
def test_each_test_has_its_own_broker(kshare_broker: Broker) -> None:
    with pytest.raises(ConfigError, match="topic 'orders' doesn't exist"):
        kshare_broker.records("orders")
    kshare_broker.create_topic("orders")
    kshare_broker.produce("orders", [None], key=b"gone")
    (record,) = kshare_broker.records("orders")
    assert (record.key, record.value) == (b"gone", None)


@pytest.mark.lengthy
def test_manual_clock() -> None:
    clock = ManualClock()
    with Broker(topics={"orders": 1}, clock=clock) as broker:
        broker.set_topic_config("orders", {"retention.ms": "60000"})
        broker.produce("orders", [b"x"])
        broker.call(lambda: clock.advance(50_000))
        assert len(broker.records("orders")) == 1
        broker.call(lambda: clock.advance(20_000))
        assert broker.records("orders") == []


@pytest.mark.lengthy
def test_what_is_accepted_stays_accepted_while_the_clock_stands_still() -> None:
    """A fetch waited for the broker's clock, and what was accepted meanwhile was never sent."""
    with Broker(topics={"orders": 1}, clock=ManualClock()) as broker:
        broker.set_group_config("shippers", {"share.auto.offset.reset": "earliest"})
        broker.produce("orders", [b"%d" % number for number in range(10)])
        options: Any = {"group": "shippers", "topics": ["orders"], "close_timeout": 2.0}
        with kshare.sync.ShareConsumer(broker.bootstrap, **options) as first:
            for record in first:
                record.accept()
                if record.offset == 9:
                    break
        with kshare.sync.ShareConsumer(broker.bootstrap, **options) as second:
            assert second.next_batch(timeout=1.0) is None
        accepted = [
            metric.value
            for metric in broker.metrics()
            if metric.metric.name == "share_acknowledged_records_total" and metric.labels["type"] == "accept"
        ]
        assert accepted == [10]


@pytest.mark.lengthy
def test_a_plain_fetch_ends_while_the_clock_stands_still() -> None:
    with Broker(topics={"orders": 1}, clock=ManualClock()) as broker:
        host, port = broker.bootstrap.split(":")
        with plain_client((host, int(port))) as client:
            topics = [FetchTopic("orders", partitions=[FetchPartition(0, partition_max_bytes=1000)])]
            request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=topics)
            (topic,) = client.ask(request, version=12).responses
        assert topic.partitions[0].error_code == 0


@pytest.mark.lengthy
def test_internal_errors_are_raised() -> None:
    with pytest.raises(ExceptionGroup, match="the embedded broker failed"), Broker() as broker:
        broker.state.crashes.append(ValueError("a bug"))


@pytest.mark.lengthy
def test_unstarted_broker_raises_an_error() -> None:
    with pytest.raises(KshareError, match="context manager"):
        Broker().bootstrap  # noqa: B018


@pytest.mark.parametrize(
    "call",
    [
        lambda broker: broker.produce("orders", [b"x"]),
        lambda broker: broker.records("orders"),
        lambda broker: broker.create_topic("more"),
        lambda broker: broker.set_group_config("g", {}),
        lambda broker: broker.metrics(),
        lambda broker: broker.hang_up(),
        lambda broker: broker.stop_node(1),
        lambda broker: broker.call(lambda: None),
    ],
)
def test_calls_after_stop_raise_an_error(call: Callable[[Broker], object]) -> None:
    with Broker(topics={"orders": 1}) as broker:
        pass
    with pytest.raises(KshareError, match=r"^the broker was stopped$"):
        call(broker)


@pytest.mark.lengthy
def test_many_starts_are_fast_enough() -> None:
    """No time is asserted, but two hundred starts must fit into the test's time limit."""
    for _ in range(200):
        with Broker():
            pass


@pytest.mark.lengthy
@pytest.mark.parametrize("auto_create_topics", [True, False])
def test_topics_are_created_for_clients_unless_switched_off(auto_create_topics: bool) -> None:
    with Broker(auto_create_topics=auto_create_topics) as broker:
        host, port = broker.bootstrap.split(":")
        with plain_client((host, int(port))) as client:
            wanted = MetadataRequest([MetadataRequestTopic(name="misspelt")], allow_auto_topic_creation=True)
            client.ask(wanted)
        assert ("misspelt" in broker.call(lambda: set(broker.state.cluster.topics))) is auto_create_topics


def test_no_users_means_no_authentication() -> None:
    with Broker(topics={"orders": 1}, users={}) as broker:
        admin = AdminClient(quiet(broker))
        assert "orders" in admin.list_topics(timeout=DEADLINE_S).topics


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("protocol", "permission", "is_allowed"),
    [
        ("classic", None, False),
        ("classic", Operation.DESCRIBE, True),
        ("consumer", Operation.DESCRIBE, False),
        ("consumer", Operation.READ, True),
    ],
)
def test_permissions_of_consumer_groups(
    protocol: str, permission: Operation | None, is_allowed: bool
) -> None:
    """As docs/testing.md says: Fetch, and joins of classic groups, aren't checked."""
    with Broker(topics={"orders": 1}, settings={"authorizer.class.name": AUTHORIZER}) as broker:
        broker.produce("orders", [b"one"])
        allowed = [(AclResource.TOPIC, "orders", Operation.DESCRIBE)]
        if permission is not None:
            allowed.append((AclResource.GROUP, "readers", permission))
        for on, name, operation in allowed:
            rule = AclRule(on, name, _LITERAL, "User:*", "*", operation, _ALLOW)
            broker.call(lambda rule=rule: broker.state.authorizer.add(rule))  # type: ignore[misc]
        settings = quiet(broker, group_id="readers", auto_offset_reset="earliest", group_protocol=protocol)
        consumer = Consumer(settings)
        consumer.subscribe(["orders"])
        try:
            message = consumer.poll(DEADLINE_S)
        finally:
            consumer.close()
        assert message is not None
        assert (message.error() is None) is is_allowed


@pytest.mark.lengthy
def test_minimum_lock_duration_can_be_set() -> None:
    with Broker(min_lock_ms=200) as broker:
        broker.set_group_config("workers", {"share.record.lock.duration.ms": "200"})
        with pytest.raises(ConfigError, match="200"):
            broker.set_group_config("workers", {"share.record.lock.duration.ms": "199"})
