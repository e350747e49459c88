"""The synchronous consumer with real brokers."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from kshare import ShareRecord, sync
from tests.integration.conftest import FreshGroup, FreshTopic
from tests.integration.producing import produce
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.timeout(120)]


def test_every_record_once(kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup) -> None:
    topic, group = fresh_topic(partitions=3), fresh_group()
    produce(kafka, topic, 3000)
    seen: Counter[bytes | None] = Counter()
    with sync.ShareConsumer(kafka.bootstrap, group=group, topics=[topic]) as consumer:
        for record in consumer:
            seen[record.value] += 1
            if seen.total() == 3000:
                record.accept()
                break
        assert set(consumer.commit().values()) == {None}
    assert seen == Counter(b"%d" % n for n in range(3000))


def test_handlers_in_threads_accept_records_that_another_thread_received(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(), fresh_group()
    produce(kafka, topic, 400)
    threads: set[int] = set()
    pending = []

    def handle(record: ShareRecord) -> None:
        threads.add(threading.get_ident())
        record.accept()

    with (
        ThreadPoolExecutor(4) as pool,
        sync.ShareConsumer(
            kafka.bootstrap, group=group, topics=[topic], acknowledgement="explicit"
        ) as consumer,
    ):
        for record in consumer:
            pending.append(pool.submit(handle, record))
            if len(pending) == 400:
                break
        assert not wait(pending, timeout=60).not_done
        assert {future.exception() for future in pending} == {None}
        assert set(consumer.commit().values()) == {None}
    assert threads


def test_records_held_when_the_body_raises_are_redelivered(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(), fresh_group()
    produce(kafka, topic, 5)

    def work() -> None:
        with sync.ShareConsumer(kafka.bootstrap, group=group, topics=[topic]) as consumer:
            for record in consumer:
                if record.value == b"2":
                    raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        work()
    again = []
    with sync.ShareConsumer(kafka.bootstrap, group=group, topics=[topic]) as consumer:
        for batch in consumer.batches():
            again += [record.value for record in batch]
            if len(again) == 3:
                batch.accept()
                break
    assert sorted(again, key=str) == [b"2", b"3", b"4"]
