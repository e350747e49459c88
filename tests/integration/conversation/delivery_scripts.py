"""Which records are acquired, how often, and what happens to them."""

from __future__ import annotations

import time
from typing import Any

from kshare.protocol.messages import (
    AddPartitionsToTxnRequest,
    DeleteRecordsRequest,
    EndTxnRequest,
    ListOffsetsRequest,
)
from kshare.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic
from kshare.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsTopic
from kshare.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic
from kshare.protocol.record_builder import BatchBuilder
from tests.integration.conversation.offset_scripts import show
from tests.integration.conversation.session_scripts import scene, warm_up
from tests.integration.conversation.sharer import ACCEPT, GAP, REJECT, RELEASE, RENEW, Sharer
from tests.integration.conversation.talk import DEADLINE_S, Talk

_LATEST = -1
STRICT = {"share_acquire_mode": 1}


def _ranges(response: Any) -> list[tuple[int, int]]:
    return [
        (row.first_offset, row.last_offset)
        for topic in response.responses
        for partition in topic.partitions
        for row in partition.acquired_records
    ]


def sizes(talk: Talk) -> None:
    """Batch-optimized fetches end at the end of a batch in the log; `batch_size` splits the acquired ranges."""
    one = scene(talk, 10, 10, 10, 50, 20, 100, 100)
    one.fetch(most=15, wait_ms=5000)
    one.fetch(most=15, batch_size=5)
    one.fetch(most=1, batch_size=25)
    one.fetch(most=150, batch_size=60)
    one.fetch()


def strict_limits(talk: Talk) -> None:
    one = scene(talk, 10, 10, 10, 50)
    one.fetch(most=4, wait_ms=5000, **STRICT)
    one.fetch(most=10, batch_size=3, **STRICT)
    one.fetch(most=1, **STRICT)
    one.fetch(most=3)
    one.acknowledge((0, 4, RELEASE), (12, 14, RELEASE))
    one.fetch(most=2, **STRICT)
    one.fetch(most=4, **STRICT)
    one.fetch(most=5, **STRICT)
    one.fetch(most=500, **STRICT)
    one.fetch(most=500, **STRICT)


def small_bytes(talk: Talk) -> None:
    one = scene(talk, 10, 10, 10)
    one.fetch(max_bytes=100, wait_ms=5000)
    one.fetch(max_bytes=450)
    one.acknowledge((0, 9, RELEASE))
    one.fetch(max_bytes=100)
    one.fetch(min_bytes=100_000, wait_ms=200)


def released_records_come_first(talk: Talk) -> None:
    one = scene(talk, 10, 10, 10, 10)
    one.fetch(most=20, wait_ms=5000)
    one.acknowledge((2, 3, RELEASE), (5, 5, RELEASE), (10, 19, RELEASE))
    one.fetch(most=2)
    one.fetch(most=1)
    one.fetch()
    one.fetch()


def many_deliveries(talk: Talk) -> None:
    """From half of the delivery limit on, fewer and fewer records are acquired together."""
    for limit in (2, 3, 4, 5, 7, 10):
        one = scene(talk, 30, 10, label=f"limit-{limit}", share_delivery_count_limit=str(limit))
        response = one.fetch(wait_ms=5000)
        for _ in range(limit + 2):
            one.acknowledge(*((first, last, RELEASE) for first, last in _ranges(response)))
            response = one.fetch()


def poison_in_the_middle(talk: Talk) -> None:
    one = scene(talk, 20, share_delivery_count_limit="5")
    one.fetch(wait_ms=5000)
    for _ in range(3):
        one.acknowledge((4, 5, RELEASE))
        one.fetch()
    one.acknowledge((0, 19, RELEASE))
    for _ in range(5):
        one.fetch()
    one.acknowledge((4, 4, RELEASE))
    one.fetch()
    one.acknowledge((5, 5, RENEW), is_renew_ack=True)
    one.acknowledge((5, 5, REJECT))
    one.fetch()


def some_are_suspicious(talk: Talk) -> None:
    one = scene(talk, 10, 10, 10, share_delivery_count_limit="5")
    one.fetch(wait_ms=5000)
    for _ in range(2):
        one.acknowledge((10, 19, RELEASE))
        one.fetch()
    one.acknowledge((0, 29, RELEASE))
    for _ in range(4):
        one.fetch()


def suspicious_batches(talk: Talk) -> None:
    one = scene(talk, 10, 10, 10, share_delivery_count_limit="5")
    one.fetch(wait_ms=5000, batch_size=10)
    for _ in range(2):
        one.acknowledge((10, 19, RELEASE))
        one.fetch()
    one.acknowledge((0, 29, RELEASE))
    for _ in range(4):
        one.fetch()


def a_limit_is_lowered(talk: Talk) -> None:
    one = scene(talk, 10, share_delivery_count_limit="6")
    one.fetch(wait_ms=5000)
    for _ in range(3):
        one.acknowledge((0, 9, RELEASE))
        one.fetch()
    talk.configure_group(one.group, {"share.delivery.count.limit": "2"})
    one.acknowledge((0, 4, RELEASE))
    one.fetch()
    one.acknowledge((5, 9, ACCEPT))
    one.fetch()


def the_window_is_full(talk: Talk) -> None:
    one = scene(talk, *[50] * 10, share_partition_max_record_locks="100")
    one.fetch(wait_ms=5000)
    one.fetch()
    one.acknowledge((1, 99, ACCEPT))
    one.fetch()
    one.acknowledge((0, 0, ACCEPT))
    one.fetch(most=60)
    one.fetch()
    one.acknowledge((110, 119, RELEASE))
    one.fetch()
    two = scene(talk, *[70] * 5, label="two", share_partition_max_record_locks="100")
    two.fetch(wait_ms=5000)
    two.fetch()
    two.acknowledge((5, 9, RELEASE))
    two.fetch()
    two.acknowledge((0, 139, ACCEPT))
    two.fetch(**STRICT)
    two.fetch(**STRICT)
    two.fetch(**STRICT)


def acknowledgements(talk: Talk) -> None:
    one = scene(talk, 10, 10, 10)
    one.acknowledge((0, 0, ACCEPT))
    one.fetch(wait_ms=5000)
    for ranges in (
        [(0, 4, ACCEPT)],
        [(0, 4, ACCEPT)],
        [(2, 7, ACCEPT)],
        [(30, 35, ACCEPT)],
        [(25, 35, ACCEPT)],
        [(29, 28, ACCEPT)],
        [(9, 9, ACCEPT), (9, 9, ACCEPT)],
        [(12, 13, ACCEPT), (10, 11, ACCEPT)],
        [(10, 12, ACCEPT), (12, 13, ACCEPT)],
        [(9, 9, 9)],
        [(9, 9, 255)],
        [(9, 9, RENEW)],
        [(10, 11, (ACCEPT, RELEASE, ACCEPT))],
        [(10, 11, ())],
        [(10, 12, (ACCEPT, RELEASE))],
        [(-5, -1, ACCEPT)],
        [(-5, 9, ACCEPT)],
        [(10, 12, (ACCEPT, RELEASE, REJECT))],
        [(10, 10, ACCEPT)],
        [(11, 11, ACCEPT)],
        [(12, 12, RELEASE)],
        [(13, 15, ACCEPT), (10, 10, ACCEPT)],
        [(8, 8, ACCEPT), (11, 11, ACCEPT), (13, 15, ACCEPT)],
        [(8, 8, ACCEPT), (13, 15, ACCEPT), (99, 99, ACCEPT)],
        [(8, 9, GAP)],
        [(13, 16, (GAP, REJECT, ACCEPT, RELEASE))],
        [(17, 17, ACCEPT), (19, 19, ACCEPT)],
        [(0, 29, ACCEPT)],
        [(18, 18, ACCEPT), (20, 29, ACCEPT)],
        [],
    ):
        one.acknowledge(*ranges)
    show(talk, one.group)
    one.fetch()
    one.acknowledge((11, 11, ACCEPT), (16, 16, ACCEPT))
    one.fetch()
    one.acknowledge((0, 29, ACCEPT))
    one.acknowledge((30, 30, ACCEPT))
    talk.produce(one.topic, [1])
    one.fetch(wait_ms=2000)
    show(talk, one.group)


def locks_run_out(talk: Talk) -> None:
    """All locks expire together: records in different states have separate timers, which expire in no fixed order."""
    one = scene(talk, 10, share_record_lock_duration_ms="1000", share_delivery_count_limit="2")
    one.fetch(wait_ms=5000)
    one.fetch(wait_ms=5000)
    one.acknowledge((0, 9, RENEW), is_renew_ack=True)
    one.fetch(wait_ms=2000)
    one.acknowledge((3, 3, ACCEPT))
    show(talk, one.group)
    talk.produce(one.topic, [1])
    one.fetch(wait_ms=2000)


def renewing_is_switched_off(talk: Talk) -> None:
    one = scene(talk, 10, share_renew_acknowledge_enable="false")
    one.fetch(wait_ms=5000)
    one.acknowledge((0, 0, RENEW), is_renew_ack=True)
    one.acknowledge((0, 0, ACCEPT), is_renew_ack=True)
    one.acknowledge((1, 1, RENEW), (2, 2, ACCEPT), is_renew_ack=True)
    one.fetch(is_renew_ack=True, most=0, min_bytes=0, max_bytes=0, acks={0: [(1, 1, RENEW)]})
    one.acknowledge((1, 9, ACCEPT))


def fetches_wake_up(talk: Talk) -> None:
    one = scene(talk)
    two = Sharer(talk, one.group, one.topic, "two")
    warm_up(talk, one, 1)
    parked = one.fetch_request(0, wait_ms=3000)
    talk.send(parked, one.via)
    talk.produce(one.topic, [5])
    talk.receive(parked, one.via)
    one.epoch = 1
    other = two.fetch_request(0, wait_ms=3000)
    talk.send(other, two.via)
    one.acknowledge((0, 1, RELEASE))
    talk.receive(other, two.via)
    two.epoch = 1
    other = two.fetch_request(1, wait_ms=3000)
    talk.send(other, two.via)
    one.fetch(-1)
    talk.receive(other, two.via)


def the_start_of_the_log_moves(talk: Talk) -> None:
    one = scene(talk, 10, 10, 10)
    one.fetch(most=10, wait_ms=5000)
    _delete_records(talk, one.topic, 5)
    one.acknowledge((3, 4, ACCEPT))
    one.acknowledge((5, 6, ACCEPT))
    one.fetch(most=10)
    one.acknowledge((7, 7, RELEASE), (10, 12, RELEASE))
    _delete_records(talk, one.topic, 11)
    one.fetch(most=10)
    one.acknowledge((8, 9, ACCEPT))
    _delete_records(talk, one.topic, 30)
    talk.produce(one.topic, [3])
    one.fetch(wait_ms=3000)
    one.acknowledge((30, 32, ACCEPT))
    show(talk, one.group)


def transactions(talk: Talk) -> None:
    topic = talk.topic("orders")
    talk.produce(topic, [2])
    producer = _Producer(talk, topic)
    producer.write(3)
    producer.end(False)
    producer.write(4)
    producer.end(True)
    talk.produce(topic, [2])
    producer.write(2)
    for level in ("read_committed", "read_uncommitted"):
        one = Sharer(talk, talk.group(level, {"share.isolation.level": level}), topic, f"one-{level}")
        one.join()
        one.fetch(wait_ms=5000)
        one.fetch()
        one.acknowledge((0, 1, ACCEPT))
        show(talk, one.group)
        if level == "read_committed":
            one.acknowledge((2, 4, ACCEPT))
            one.acknowledge((5, 5, GAP), (6, 9, ACCEPT), (10, 10, GAP), (11, 12, ACCEPT))
            producer.end(True)
            one.fetch(wait_ms=5000)
            show(talk, one.group)


def aborted_records_in_front(talk: Talk) -> None:
    """More aborted records than the fetch asks for."""
    one = scene(talk, share_isolation_level="read_committed")
    warm_up(talk, one, 1)
    producer = _Producer(talk, one.topic)
    for _ in range(3):
        producer.write(10)
        producer.end(False)
    talk.produce(one.topic, [2])
    for _ in range(4):
        one.fetch(most=5, wait_ms=1000)
    show(talk, one.group)


class _Producer:
    """A transactional producer."""

    def __init__(self, talk: Talk, topic: str) -> None:
        self.talk = talk
        self.topic = topic
        self.name = talk.name("transaction")
        made = talk.transactional_producer(self.name)
        self.id, self.epoch = made.producer_id, made.producer_epoch
        self.sequence = 0

    def write(self, count: int) -> None:
        rows = [AddPartitionsToTxnTopic(self.topic, [0])]
        self.talk.wait_for(
            lambda: AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=rows,
            ),
            lambda a: not a.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
            version=3,
        )
        builder = BatchBuilder(
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            is_transactional=True,
        )
        for number in range(count):
            builder.append(b"%d" % number, timestamp=time.time_ns() // 1_000_000)
        self.talk.produce_batch(self.topic, builder, transactional_id=self.name)
        self.sequence += count

    def end(self, is_committed: bool) -> None:
        rows = [ListOffsetsTopic(self.topic, [ListOffsetsPartition(0, -1, _LATEST)])]
        before = self.talk.quietly(ListOffsetsRequest(-1, 0, rows)).topics[0].partitions[0].offset
        response = self.talk.wait_for(
            lambda: EndTxnRequest(self.name, self.id, self.epoch, is_committed),
            lambda a: a.error_code == 0,
            version=4,
        )
        assert not response.error_code
        # The marker is written after the response.
        self.talk.wait_for(
            lambda: ListOffsetsRequest(-1, 0, rows),
            lambda a: a.topics[0].partitions[0].offset > before,
        )


def _delete_records(talk: Talk, topic: str, before: int) -> None:
    rows = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, before)])]
    response = talk.quietly(DeleteRecordsRequest(rows, int(DEADLINE_S * 1000)))
    assert not response.topics[0].partitions[0].error_code, response


SCRIPTS = [
    sizes,
    strict_limits,
    small_bytes,
    released_records_come_first,
    many_deliveries,
    poison_in_the_middle,
    some_are_suspicious,
    suspicious_batches,
    a_limit_is_lowered,
    the_window_is_full,
    acknowledgements,
    locks_run_out,
    renewing_is_switched_off,
    fetches_wake_up,
    the_start_of_the_log_moves,
    transactions,
    aborted_records_in_front,
]
