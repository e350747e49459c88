"""Batches that Kafka's own producer wrote and a real broker stored, with every compression type."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshare.dissect import dissect_records
from kshare.protocol.compression import Compression
from kshare.protocol.messages import FetchRequest, MetadataRequest
from kshare.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.records import Batch, read_batches
from tests.helpers.plain_client import plain_client
from tests.integration.conftest import FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java]

COUNT, SIZE = 300, 100


def stored(kafka: Cluster, topic: str) -> bytes:
    """The bytes of the partition's segment file."""
    (segment,) = Path(kafka.nodes[0].folder, "data").rglob(f"{topic}-0/*.log")
    return segment.read_bytes()


def fetched(kafka: Cluster, topic: str) -> bytes:
    with plain_client(kafka.nodes[0].address()) as client:
        topic_id = client.ask(MetadataRequest([MetadataRequestTopic(name=topic)])).topics[0].topic_id
        partition = FetchPartition(partition=0, partition_max_bytes=2**20)
        request = FetchRequest(
            max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[partition])]
        )
        response = client.ask(request)
        assert response.error_code == response.responses[0].partitions[0].error_code == 0
        return bytes(response.responses[0].partitions[0].records or b"")


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_batches_of_the_java_producer_are_read(
    kafka: Cluster, fresh_topic: FreshTopic, codec: Compression
) -> None:
    topic = fresh_topic()
    kafka.run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(COUNT), "--record-size", str(SIZE), "--throughput", "-1"),
        *("--command-property", f"compression.type={codec.name.lower()}", "linger.ms=50"),
    )
    data = stored(kafka, topic)
    batches = list(read_batches(data))
    assert {batch.compression for batch in batches} == {codec}
    records = [record for batch in batches for record in batch]
    assert [record.offset for record in records] == list(range(COUNT))
    assert {len(record.value or b"") for record in records} == {SIZE}
    assert fetched(kafka, topic) == data
    check_dissection(data, batches)


def test_keys_headers_and_nulls_of_the_console_producer_are_read(
    kafka: Cluster, fresh_topic: FreshTopic
) -> None:
    topic = fresh_topic()
    kafka.run_tool(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--topic", topic, "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"),
        *("--reader-property", "null.marker=NIL"),
        given="a:1,b:grüße\tkey\tvalue\nNIL\tNIL\tNIL\n",
    )
    records = [record for batch in read_batches(stored(kafka, topic)) for record in batch]
    assert [(record.key, record.value) for record in records] == [(b"key", b"value"), (None, None)]
    assert [list(record.headers) for record in records] == [[("a", b"1"), ("b", "grüße".encode())], []]


def check_dissection(data: bytes, batches: list[Batch]) -> None:
    dissection = dissect_records(data)
    assert dissection.error is None
    assert dissection.problems == []
    assert b"".join(bytes(span.raw) for span in dissection.spans) == data
    for number, batch in enumerate(batches):
        span = dissection.find(f"records[{number}].baseOffset")
        assert span is not None
        assert span.value == batch.base_offset
