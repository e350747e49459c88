"""The worker against every broker: each record ends as its policy says, and nothing is left."""

from __future__ import annotations

from collections import Counter, defaultdict

import anyio
import pytest

from kshare import AdminClient
from kshare.worker import Delivery, Retry, RetryTopics, Worker
from tests.helpers.committed import records_in
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, WorkQueue

pytestmark = [pytest.mark.kafka, pytest.mark.anyio]


async def until_settled(queue: WorkQueue, worker: Worker, records: int) -> None:
    """Wait until so many records have been processed or given up."""
    with anyio.fail_after(DEADLINE_S):
        while (
            sum(runner.counts.done + runner.counts.dead + runner.counts.filtered for runner in worker.runners)
            < records
        ):
            await anyio.sleep(0.02)


async def nothing_is_left(queue: WorkQueue) -> None:
    async with AdminClient(queue.broker.bootstrap) as admin:
        progress = await admin.share_group_progress(queue.group)
    assert {(row.topic, row.partition): row.lag for row in progress if row.lag} == {}


async def test_each_record_ends_as_its_policy_says(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(partitions=2)
    dead = f"{queue.topic}-dead"
    attempts: defaultdict[int, list[int]] = defaultdict(list)
    worker = Worker(
        queue.broker.bootstrap,
        group=queue.group,
        retry=Retry(attempts=3, delay=0.05),
        dead_letters=dead,
        breaker=None,
    )

    @worker.handler(queue.topic, only=lambda delivery: delivery.value != b"1")
    async def process(number: int, delivery: Delivery) -> None:
        attempts[number].append(delivery.attempt)
        match number % 10:
            case 2:
                raise ValueError(number)
            case 3 if delivery.attempt < 3:
                raise ValueError(number)
            case 4:
                delivery.reject("not wanted")
            case 5 if len(attempts[number]) == 1:
                delivery.release()
            case 6 if len(attempts[number]) == 1:
                delivery.release(delay=0.05)

    await queue.produce(100)
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until_settled(queue, worker, 100)
        worker.stop()
    assert {number: attempts.pop(number, None) for number in (1, 2, 3, 4, 6)} == {
        1: None,
        2: [1, 2, 3],
        3: [1, 2, 3],
        4: [1],
        6: [1, 1],
    }
    assert attempts[5] == [1, 1]
    assert len(attempts) == 95
    letters = await records_in(queue.broker.bootstrap, dead)
    found = {int(letter.value or b""): dict(letter.headers) for letter in letters}
    assert sorted(found) == sorted(number for number in range(100) if number % 10 in (2, 4))
    assert found[2]["__dlq.errors.message"] == b"ValueError in attempt 3: 2"
    assert found[4]["__dlq.errors.message"] == b"not wanted"
    assert found[2]["__dlq.errors.group"] == queue.group.encode()
    await nothing_is_left(queue)


async def test_retry_topics_free_the_window_and_keep_the_count_of_attempts(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    attempts: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    worker = Worker(
        queue.broker.bootstrap,
        group=queue.group,
        retry=Retry(attempts=3, delay=[0.1, 2.0]),
        retry_topics=RetryTopics(tiers=(2.0,)),
        hold_up_to=1.0,
        breaker=None,
    )

    @worker.handler(queue.topic)
    async def process(number: int, delivery: Delivery) -> None:
        attempts[number].append((delivery.attempt, delivery.record.topic))
        assert (delivery.topic, delivery.headers[0][0]) == (queue.topic, "n")
        if number % 5 == 0 and delivery.attempt < 3:
            raise ValueError(number)

    await queue.produce(20)
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until_settled(queue, worker, 20)
        worker.stop()
    await nothing_is_left(queue)
    again = [(1, queue.topic), (2, queue.topic), (3, f"{queue.topic}.retry.2s")]
    assert attempts == {number: again if number % 5 == 0 else again[:1] for number in range(20)}


async def test_stopping_finishes_what_is_in_hand_and_redelivers_nothing(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(partitions=2)
    deliveries: Counter[tuple[bytes, int]] = Counter()
    worker = Worker(queue.broker.bootstrap, group=queue.group, concurrency=20)

    @worker.handler(queue.topic)
    async def process(value: bytes, delivery: Delivery) -> None:
        await anyio.sleep(0.01)
        deliveries[value, delivery.delivery_count] += 1

    await queue.produce(1000)
    done = 0
    while done < 1000:
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            await until_settled(queue, worker, min(200, 1000 - done))
            [runner] = worker.runners
            worker.stop()
        assert (runner.counts.failed, runner.counts.cancelled, runner.counts.released) == (0, 0, 0)
        done += runner.counts.done
    assert deliveries == {(value, 1): 1 for value in queue.values()}


async def test_cancelled_handlers_release_their_records(fresh_queue: FreshQueue) -> None:
    """At the time limit, and at the deadline of draining."""
    queue = fresh_queue()
    seen: defaultdict[bytes, list[int]] = defaultdict(list)
    worker = Worker(
        queue.broker.bootstrap, group=queue.group, time_limit=0.5, drain_timeout=0.2, breaker=None
    )

    @worker.handler(queue.topic)
    async def process(value: bytes, delivery: Delivery) -> None:
        seen[value].append(delivery.delivery_count)
        if len(seen[value]) < 3:
            await anyio.sleep_forever()

    await queue.produce(5)
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        with anyio.fail_after(DEADLINE_S):
            while sum(map(len, seen.values())) < 10:
                await anyio.sleep(0.02)
        [runner] = worker.runners
        worker.stop()
    assert runner.counts.failed == runner.counts.done == 0
    assert runner.counts.cancelled == runner.counts.released == 10
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until_settled(queue, worker, 5)
        worker.stop()
    assert seen == {value: [1, 2, 3] for value in queue.values()}


async def test_records_of_a_key_are_processed_one_after_another(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(partitions=3)
    running: Counter[bytes | None] = Counter()
    order: defaultdict[bytes | None, list[int]] = defaultdict(list)
    worker = Worker(queue.broker.bootstrap, group=queue.group, concurrency=30, order="key", breaker=None)

    @worker.handler(queue.topic, retry=Retry(attempts=5, delay=0.02))
    async def process(number: int, delivery: Delivery) -> None:
        running[delivery.key] += 1
        assert running[delivery.key] == 1
        try:
            await anyio.sleep(0.001)
            if number % 7 == 0 and delivery.attempt == 1:
                raise ValueError(number)
            order[delivery.key].append(number)
        finally:
            running[delivery.key] -= 1

    for key in (b"a", b"b", b"c", b"d", b"e"):
        await queue.produce(40, key=key)
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until_settled(queue, worker, 200)
        worker.stop()
    assert sorted(map(len, order.values())) == [40] * 5
    assert all(numbers == sorted(numbers) for numbers in order.values())


async def test_batch_handlers_and_plain_functions(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(partitions=2)
    other = fresh_queue()
    batches: list[list[int]] = []
    values: list[bytes] = []
    worker = Worker(queue.broker.bootstrap, retry=Retry(attempts=3, delay=0.01), breaker=None)

    @worker.batch_handler(queue.topic, group=queue.group, batch_size=40, batch_wait=0.2)
    async def process(numbers: list[int], deliveries: list[Delivery]) -> None:
        batches.append(numbers)
        if len(batches) == 1:
            raise ValueError
        for delivery in deliveries:
            if delivery.payload % 10 == 9:
                delivery.reject()

    @worker.handler(other.topic, group=other.group)
    def plain(value: bytes, delivery: Delivery) -> None:
        values.append(value)
        delivery.accept()

    await queue.produce(100)
    await other.produce(50)
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until_settled(queue, worker, 150)
        worker.stop()
    assert sorted({number for batch in batches for number in batch}) == list(range(100))
    assert max(map(len, batches)) <= 40
    assert sorted(values) == sorted(other.values())
    await nothing_is_left(queue)
    await nothing_is_left(other)


async def test_records_that_wait_keep_their_attempts_and_their_time_when_the_worker_stops(
    fresh_queue: FreshQueue,
) -> None:
    """They are moved to the retry topic: releasing them would forget both."""
    queue = fresh_queue()
    seen: defaultdict[int, list[int]] = defaultdict(list)
    times: dict[int, float] = {}
    worker = Worker(
        queue.broker.bootstrap,
        group=queue.group,
        retry=Retry(attempts=3, delay=[0.1, 5.0]),
        retry_topics=RetryTopics(tiers=(5.0,)),
        breaker=None,
    )

    @worker.handler(queue.topic)
    async def process(number: int, delivery: Delivery) -> None:
        seen[number].append(delivery.attempt)
        if delivery.attempt < 3:
            times[number] = anyio.current_time()
            raise ValueError
        assert anyio.current_time() - times[number] > 4

    await queue.produce(10)
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        with anyio.fail_after(DEADLINE_S):
            while sum(map(len, seen.values())) < 20:
                await anyio.sleep(0.02)
        worker.stop()
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until_settled(queue, worker, 10)
        worker.stop()
    assert seen == {number: [1, 2, 3] for number in range(10)}
    await nothing_is_left(queue)


async def test_results_are_published_once_for_each_record_that_is_accepted(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(partitions=2)
    results = f"{queue.topic}-results"
    async with AdminClient(queue.broker.bootstrap) as admin:
        await admin.create_topic(results, partitions=2)
    worker = Worker(
        queue.broker.bootstrap, group=queue.group, retry=Retry(attempts=3, delay=0.05), breaker=None
    )

    @worker.handler(queue.topic, concurrency=20)
    async def double(number: int, delivery: Delivery) -> None:
        delivery.publish(results, b"%d" % (2 * number), key=delivery.key)
        await anyio.sleep(0.001)
        if number % 10 == 3 and delivery.attempt < 3:
            raise ValueError(number)
        if number % 10 == 4:
            delivery.reject("not wanted")

    await queue.produce(100)
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until_settled(queue, worker, 100)
        worker.stop()
    await nothing_is_left(queue)
    found = await records_in(queue.broker.bootstrap, results)
    assert Counter(record.value for record in found) == Counter(
        b"%d" % (2 * n) for n in range(100) if n % 10 != 4
    )
