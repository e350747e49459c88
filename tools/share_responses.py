"""Records ShareFetch responses of real brokers: `python -m tools.share_responses [release ...]`.

Writes tests/golden/share_responses.jsonl.

Each tested release is started once, and fetches are sent for all kinds of topics: compressed, compacted,
transactional, with deleted records, several partitions, redelivered records. Tests damage these responses bit by
bit, so records are small. Decides what is recorded, not how a client should interpret it.
"""

from __future__ import annotations

import base64
import itertools
import json
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kafka import KafkaProducer

from kshare.protocol.compression import Compression
from kshare.protocol.messages import (
    DeleteRecordsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
)
from kshare.protocol.messages import fetch_request as plain
from kshare.protocol.messages import produce_request as produce
from kshare.protocol.messages import share_fetch_request as fetch
from kshare.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsTopic
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import read_batches
from tests.helpers.plain_client import PlainClient
from tools.kafka.cluster import Cluster
from tools.kafka.jars import TESTED_RELEASES, install

FILE = Path(__file__).resolve().parent.parent / "tests" / "golden" / "share_responses.jsonl"
DEADLINE_S = 60.0
ACCEPT, RELEASE = 1, 2
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "100",
    "delete.retention.ms": "0",
}
COMPACTED_LEFT = {4, 5, 7, 10, 11, 12, 13, 16, 17, 18}
Settle = Callable[[int], int]
"""Returns the acknowledgement type for the record at an offset."""


class Response(NamedTuple):
    """One line of the file."""

    release: str
    kind: str
    version: int
    partitions: list[tuple[str, int]]
    """Topic id in hex and number of all partitions in the session."""
    acknowledged: list[tuple[str, int]]
    """The partitions that the request acknowledged."""
    body: str
    """The response without its header, in base64."""


class Recording(PlainClient):
    """Keeps the frame of the last response."""

    def _frame(self) -> memoryview:
        self.frame = super()._frame()
        return self.frame


class Member:
    """A member of a share group with one topic, whose responses with records are recorded."""

    def __init__(
        self, cluster: Cluster, client: Recording, topic: str, partitions: int, **group: str
    ) -> None:
        self.client = client
        self.release = cluster.release
        self.topic = topic
        self.partitions = partitions
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        # Kafka 4.1 only accepts member ids in Kafka's own format of a UUID.
        self.id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        cluster.set_group_config(self.group, {"share.auto.offset.reset": "earliest"} | group)
        self.topic_id = topic_id(client, topic)
        self.epoch = 0

    def join(self) -> None:
        self.client.ask(FindCoordinatorRequest(coordinator_keys=[self.group]))
        epoch, deadline = 0, time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            beat = ShareGroupHeartbeatRequest(
                self.group, self.id, epoch, None, None if epoch else [self.topic]
            )
            response = self.client.ask(beat)
            assert response.error_code == 0, response
            epoch = response.member_epoch
            found = response.assignment.topic_partitions if response.assignment else []
            if sum(len(row.partitions) for row in found) == self.partitions:
                return
            time.sleep(0.1)
        raise TimeoutError("no assignment")

    def fetch(
        self, acks: Mapping[int, Sequence[tuple[int, int, bytes]]], **fields: Any
    ) -> ShareFetchResponse:
        numbers = range(self.partitions) if self.epoch == 0 else sorted(acks)
        rows = [
            fetch.FetchPartition(
                acknowledgement_batches=[
                    fetch.AcknowledgementBatch(*range_) for range_ in acks.get(number, ())
                ],
                partition_index=number,
            )
            for number in numbers
        ]
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "share_session_epoch": self.epoch,
            "max_wait_ms": 300,
            "min_bytes": 1,
            "max_records": 500,
            "batch_size": 500,
            "topics": [fetch.FetchTopic(self.topic_id, rows)] if rows else [],
        }
        request = ShareFetchRequest(**values | fields)
        response = self.client.ask(request)
        assert response.error_code == 0, response
        self.epoch += 1
        return response

    def record(
        self, kind: str, max_responses: int, settle: Settle = lambda _: ACCEPT, **fields: Any
    ) -> Iterator[Response]:
        """Yield up to `max_responses` responses with records. Each is settled with the next fetch."""
        acks: dict[int, list[tuple[int, int, bytes]]] = {}
        empty = 0
        while max_responses and empty < 8:
            response = self.fetch(acks, **fields)
            found = {
                partition.partition_index: partition.acquired_records
                for topic in response.responses
                for partition in topic.partitions
                if partition.acquired_records
            }
            if found:
                max_responses -= 1
                topic = self.topic_id.hex()
                version = self.client.version_of(ShareFetchRequest())
                body = bytes(self.client.frame)
                yield Response(
                    self.release,
                    kind,
                    version,
                    [(topic, number) for number in range(self.partitions)],
                    [(topic, number) for number in acks],
                    base64.b64encode(body).decode(),
                )
            empty = 0 if found else empty + 1
            acks = {
                number: [_settled(range_.first_offset, range_.last_offset, settle) for range_ in ranges]
                for number, ranges in found.items()
            }


def _settled(first: int, last: int, settle: Settle) -> tuple[int, int, bytes]:
    return first, last, bytes(map(settle, range(first, last + 1)))


def topic_id(client: PlainClient, topic: str) -> bytes:
    return client.ask(MetadataRequest([MetadataRequestTopic(name=topic)])).topics[0].topic_id


class Recorder:
    """Records all kinds of responses of one release."""

    def __init__(self, cluster: Cluster, client: Recording) -> None:
        self.cluster = cluster
        self.client = client
        self.is_4_1 = cluster.release.startswith("4.1.")
        self._numbers = itertools.count()

    def everything(self) -> Iterator[Response]:
        kinds = (
            self.small,
            self.compressed,
            self.record_limit,
            self.again,
            self.partitions,
            self.compacted,
            self.compacted_again,
            self.transactions,
            self.cut_off,
            self.deleted,
        )
        for kind in kinds:
            yield from kind()

    def topic(self, settings: Mapping[str, str] | None = None, partitions: int = 1) -> str:
        name = f"t{next(self._numbers)}"
        self.cluster.create_topic(name, partitions, settings=dict(settings or {}))
        return name

    def send(
        self,
        topic: str,
        batches: Iterable[Sequence[Any]],
        partition: int = 0,
        compression: Compression = Compression.NONE,
    ) -> None:
        """Each list is a batch; each record is a value, or (key, value)."""
        for number, batch in enumerate(batches):
            builder = BatchBuilder(compression=compression)
            for record in batch:
                key, value = record if isinstance(record, tuple) else (None, record)
                headers = [("n", b"%d" % number)] if number % 2 else []
                builder.append(value, key=key, timestamp=int(time.time() * 1000), headers=headers)
            rows = [produce.PartitionProduceData(partition, builder.build())]
            wanted = produce.TopicProduceData(name=topic, partition_data=rows)
            wanted.topic_id = topic_id(self.client, topic)
            request = produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[wanted])
            deadline = time.monotonic() + DEADLINE_S
            # A new topic has no leader for a moment.
            while error := self.client.ask(request).responses[0].partition_responses[0].error_code:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic} takes no records: error {error}")
                time.sleep(0.1)

    def member(self, topic: str, partitions: int = 1, **group: str) -> Member:
        dotted = {key.replace("_", "."): value for key, value in group.items()}
        member = Member(self.cluster, self.client, topic, partitions, **dotted)
        member.join()
        return member

    def small(self) -> Iterator[Response]:
        topic = self.topic()
        self.send(topic, [[b"a", b"b", b"c"], [b"d"], [b"e", b"f"], [b"g", b"h", b"i", b"j"]])
        yield from self.member(topic).record("small", 2)
        yield from self.member(topic).record("small parts", 4, batch_size=3)

    def compressed(self) -> Iterator[Response]:
        for codec in list(Compression)[1:]:
            topic = self.topic()
            values = [b"value " * 5 + b"%d" % number for number in range(12)]
            self.send(topic, [values[:5], values[5:6], values[6:]], compression=codec)
            yield from self.member(topic).record(codec.name.lower(), 2)

    def record_limit(self) -> Iterator[Response]:
        """Ranges that begin and end within batches. Kafka 4.1 lacks this mode: it acquires whole batches."""
        topic = self.topic()
        self.send(topic, [[b"%d" % number for number in range(7)], [b"x", b"y", b"z"]])
        yield from self.member(topic).record("record limit", 5, **self._limit(3))

    def _limit(self, max_records: int) -> dict[str, Any]:
        fields = {"max_records": max_records, "batch_size": max_records}
        return fields if self.is_4_1 else fields | {"share_acquire_mode": 1}

    def again(self) -> Iterator[Response]:
        """Some records are released, so that single records of a batch are redelivered."""
        topic = self.topic()
        self.send(topic, [[b"%d" % number for number in range(6)], [b"x", b"y", b"z"]])
        seen: set[int] = set()

        def settle(offset: int) -> int:
            is_new = offset not in seen
            seen.add(offset)
            return RELEASE if is_new and offset % 3 == 1 else ACCEPT

        yield from self.member(topic).record("again", 5, settle)

    def partitions(self) -> Iterator[Response]:
        topic = self.topic(partitions=3)
        for turn in range(2):
            for number in range(3):
                self.send(topic, [[(b"k", b"p%d" % number)] * (turn + number + 1)], number)
        yield from self.member(topic, 3).record("partitions", 4)

    def compacted(self) -> Iterator[Response]:
        topic = self._compacted_topic()
        yield from self.member(topic).record("compacted", 3)
        yield from self.member(topic).record("compacted parts", 4, batch_size=2, max_records=4)
        yield from self.member(topic).record("compacted record limit", 6, **self._limit(3))
        for kind, fields in (
            ("", {}),
            (" parts", {"batch_size": 2, "max_records": 4}),
            (" limit", self._limit(3)),
        ):
            yield from self.member(topic).record(
                "holes released" + kind,
                9,
                lambda offset: RELEASE if offset < 19 and offset not in COMPACTED_LEFT else ACCEPT,
                **fields,
            )

    def compacted_again(self) -> Iterator[Response]:
        """Acquired, then compacted, then acquired again."""
        topic = self.topic(COMPACTED)
        self.send(topic, [[(b"k%d" % number, b"x")] for number in range(6)])
        self.send(topic, [[(b"l%d" % number, b"x") for number in range(6)]])
        member = self.member(topic)
        held: list[tuple[int, int, bytes]] = []
        while not held or held[-1][1] < 11:
            for row in member.fetch({}).responses:
                for data in row.partitions:
                    held += [
                        (record.first_offset, record.last_offset, bytes([RELEASE]))
                        for record in data.acquired_records
                    ]
        self.send(
            topic, [[(b"k%d" % number, b"new") for number in (1, 2, 5)], [(b"l0", b"n"), (b"l5", b"n")]]
        )
        self._compact(topic, {0, 3, 4, 7, 8, 9, 10}, 12)
        member.fetch({0: held}, max_records=0)
        yield from member.record("compacted again", 4, lambda _: RELEASE)

    def _compacted_topic(self) -> str:
        topic = self.topic(COMPACTED)
        often = [[(b"often", b"old")]] * 3 + [[(b"often", b"stale"), (b"often", b"last")]]
        single = [[(b"s%d" % number, b"v")] for number in range(6)]
        again = [[(b"s1", b"w"), (b"s3", b"w"), (b"s4", b"w")]]
        self.send(topic, [*often, *single, *again])
        self.send(topic, [[(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"b", b"2")]])
        self._compact(topic, COMPACTED_LEFT, 19)
        return topic

    def _compact(self, topic: str, remaining: set[int], written: int) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            stored = self._stored(topic)
            if {offset for offset in stored if offset < written} == remaining:
                return
            self.send(topic, [[(b"closes a segment", b"")]])
            time.sleep(0.2)
        raise TimeoutError(f"{topic} isn't compacted: {stored}")

    def _stored(self, topic: str) -> list[int]:
        offset = 0
        found: list[int] = []
        where = topic_id(self.client, topic)
        while True:
            row = plain.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=2**20)
            response = self.client.ask(
                FetchRequest(max_wait_ms=0, topics=[plain.FetchTopic(topic_id=where, partitions=[row])])
            )
            batches = list(read_batches(response.responses[0].partitions[0].records or b""))
            if not batches:
                return found
            found += [record.offset for batch in batches for record in batch]
            offset = batches[-1].last_offset + 1

    def transactions(self) -> Iterator[Response]:
        topic = self.topic()
        producer = KafkaProducer(
            bootstrap_servers=self.cluster.bootstrap, transactional_id=uuid.uuid4().hex, linger_ms=50
        )
        producer.init_transactions()
        for values, end in (
            ([b"a", b"b"], producer.commit_transaction),
            ([b"no", b"no"], producer.abort_transaction),
            ([b"c"], producer.commit_transaction),
        ):
            producer.begin_transaction()
            for value in values:
                producer.send(topic, value=value, partition=0)
            producer.flush()
            end()
        producer.close()
        self.send(topic, [[b"plain", b"plain"]])
        for isolation in ("read_uncommitted", "read_committed"):
            member = self.member(topic, share_isolation_level=isolation)
            yield from member.record(f"transactions, {isolation}", 3)

    def cut_off(self) -> Iterator[Response]:
        """The requested number of bytes ends within a batch."""
        topic = self.topic()
        self.send(topic, [[b"x" * 60] for _ in range(8)])
        yield from self.member(topic).record("bounded", 6, max_bytes=330)
        yield from self.member(topic).record("bounded", 6, max_bytes=150)

    def deleted(self) -> Iterator[Response]:
        topic = self.topic()
        self.send(topic, [[b"0", b"1", b"2", b"3"], [b"4", b"5", b"6"]])
        member = self.member(topic)
        yield from member.record("before deletion", 1, lambda _: RELEASE)
        rows = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, 2)])]
        self.client.ask(DeleteRecordsRequest(rows, 30_000))
        if not self.is_4_1:
            # Kafka 4.1.2 stops responding when records are released that were deleted meanwhile.
            member.fetch({0: [(0, 6, bytes([RELEASE]))]}, max_records=0)
            yield from member.record("deleted", 3)
        yield from self.member(topic).record("deleted", 2)


def main(releases: Sequence[str]) -> None:
    """Record these releases again, and keep the lines of others."""
    kept = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()] if FILE.exists() else []
    for release in releases:
        install(release)
        with Cluster(release, 1) as cluster:
            address = cluster.nodes[0].address()
            with socket.create_connection(address, timeout=DEADLINE_S) as connection:
                found = [
                    response._asdict() for response in Recorder(cluster, Recording(connection)).everything()
                ]
        kept = [response for response in kept if response["release"] != release] + found
        FILE.write_text(
            "".join(json.dumps(response, separators=(",", ":")) + "\n" for response in kept), "utf-8"
        )
    print(
        f"{len(kept)} responses, {sum(len(response['body']) * 3 // 4 for response in kept)} bytes, in {FILE.name}"
    )


if __name__ == "__main__":
    main(sys.argv[1:] or TESTED_RELEASES)
