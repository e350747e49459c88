"""Workers: functions that run for each record, and do nothing, or sleep for as long as their record says."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import anyio

from tools.benches.contenders.program import Given, Meter, end_of_input, main

# Each imports its client itself, since it is measured alone.


def counting(records: int, meter: Meter, end: Callable[[], object]) -> Callable[[bytes], Awaitable[None]]:
    """A function that does nothing, but reports its figures at its last call."""
    seen = 0

    async def nothing(value: bytes) -> None:
        nonlocal seen
        if not seen:
            meter.on_records()
        seen += 1
        if seen == records:
            meter.report(records)
            end()

    return nothing


def by_kshare(given: Given) -> None:
    from kshare.worker import Worker

    end_of_input()
    meter, records, seen = Meter(), int(given["records"]), 0
    worker = Worker(given["bootstrap"], group=given["group"], concurrency=int(given["concurrency"]))

    async def sleep(value: float) -> None:
        nonlocal seen
        if not seen:
            meter.on_records()
        seen += 1
        await anyio.sleep(value / 1000)
        if seen == records:
            worker.stop()

    worker.handler(given["topic"])(sleep if given["way"] == "slow" else counting(records, meter, worker.stop))
    worker.run()
    if given["way"] == "slow":
        meter.report(records)


def by_confluent(given: Given) -> None:
    """A loop over confluent-kafka's share consumer with a pool of threads."""
    import confluent_kafka

    from tools.benches.contenders.by_confluent import consumer_of, polled

    end_of_input()
    meter, records, seen = Meter(), int(given["records"]), 0
    consumer = consumer_of(given, {"share.acknowledgement.mode": "explicit"})
    with ThreadPoolExecutor(int(given["concurrency"])) as pool:
        while seen < records:
            messages = polled(consumer)
            if messages and not seen:
                meter.on_records()
            running = {
                pool.submit(time.sleep, float(message.value() or b"0") / 1000): message
                for message in messages
            }
            # All have to be acknowledged before the next poll.
            while running:
                done: set[Future[None]] = wait(running, return_when=FIRST_COMPLETED).done
                for future in done:
                    consumer.acknowledge(running.pop(future), confluent_kafka.AcknowledgeType.ACCEPT)
                    seen += 1
    consumer.close()
    meter.report(records)


async def by_faststream(given: Given) -> None:
    """FastStream over aiokafka, in a consumer group."""
    from faststream import FastStream
    from faststream.kafka import KafkaBroker

    end_of_input()
    broker = KafkaBroker(given["bootstrap"], logger=None)
    app = FastStream(broker, logger=None)

    subscribe = broker.subscriber(
        given["topic"],
        group_id=given["group"],
        auto_offset_reset="earliest",
        max_workers=int(given["concurrency"]),
    )
    subscribe(counting(int(given["records"]), Meter(), app.exit))
    await app.run()


async def by_taskiq(given: Given) -> None:
    """taskiq with its broker in memory: no network at all. A task that does nothing is sent and run for each record."""
    from taskiq import InMemoryBroker

    end_of_input()
    meter, records = Meter(), int(given["records"])
    broker = InMemoryBroker(max_async_tasks=int(given["concurrency"]))

    @broker.task
    async def nothing(value: bytes) -> None: ...

    await broker.startup()
    meter.on_records()
    for _ in range(records):
        await nothing.kiq(b"x" * 100)
    await broker.wait_all()
    meter.report(records)
    await broker.shutdown()


if __name__ == "__main__":
    main(by_kshare, by_confluent, by_faststream, by_taskiq)
