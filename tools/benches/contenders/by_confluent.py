"""confluent-kafka: its share consumer reads, measures latency and works beside others; its producer writes."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence

import confluent_kafka

from tools.benches.contenders.program import Delays, Given, Meter, end_of_input, handled, main, say

_DEADLINE_S = 30.0
Messages = Sequence[confluent_kafka.Message]


def consumer_of(given: Given, config: dict[str, str | int]) -> confluent_kafka.ShareConsumer:
    consumer = confluent_kafka.ShareConsumer(
        {"bootstrap.servers": given["bootstrap"], "group.id": given["group"], **config}
    )
    consumer.subscribe([given["topic"]])
    return consumer


def polled(consumer: confluent_kafka.ShareConsumer) -> Messages:
    return [message for message in consumer.poll(0.5) if message.error() is None]


def read(given: Given) -> None:
    """As fast as possible. Accesses every value."""
    ended = end_of_input()
    is_explicit = given["way"] == "explicit"
    config: dict[str, str | int] = {}
    if "max_records" in given:
        config["max.poll.records"] = int(given["max_records"])
    if "fetch_bytes" in given:
        config["fetch.max.bytes"] = int(given["fetch_bytes"])
    if is_explicit:
        config["share.acknowledgement.mode"] = "explicit"
    seen, records, meter = 0, int(given["records"]), Meter()
    consumer = consumer_of(given, config)
    while seen < records and not ended.is_set():
        messages = consumer.poll(1.0)
        if len(messages):
            meter.on_records()
        for message in messages:
            if message.error() is None:
                seen += message.value() is not None
                if is_explicit:
                    consumer.acknowledge(message)
    meter.report(seen)
    consumer.close()


def latency(given: Given) -> None:
    ended = end_of_input()
    delays = Delays(given)
    consumer = consumer_of(given, {"share.acknowledgement.mode": given["mode"]})
    while not delays.is_complete and not ended.is_set():
        messages = polled(consumer)
        received = time.monotonic()
        delays.hand += [time.monotonic() - float(message.value() or b"") for message in messages]
        if messages and delays.is_explicit:
            for message in messages:
                consumer.acknowledge(message)
            delays.on_committed(received, consumer.commit_sync())
    consumer.close()
    delays.report()


def work(given: Given) -> None:
    """One of several consumers that share records, with defaults. A record contains its handler's time."""
    ended = end_of_input()
    consumer = consumer_of(given, {})
    while not ended.is_set():
        for message in consumer.poll(0.5):
            if message.error() is not None:
                continue
            started = time.monotonic()
            number, milliseconds = (message.value() or b"").split()
            time.sleep(float(milliseconds) / 1000)
            handled(number, started)
    consumer.close()


def compete(given: Given) -> None:
    """Several consumers in threads. Prints the number of records of each poll."""
    in_threads(given, lambda number, messages: str(len(messages)))


def crowd(given: Given) -> None:
    """Several consumers in threads. Prints how old the records of each poll are."""

    def line(number: int, messages: Messages) -> str:
        now = time.monotonic()
        return json.dumps([number, [round(now - float(each.value() or b""), 6) for each in messages]])

    in_threads(given, line)


def in_threads(given: Given, line: Callable[[int, Messages], str]) -> None:
    ended = end_of_input()

    def consume(number: int) -> None:
        consumer = consumer_of(given, {"log_level": 0})
        while not ended.is_set():
            if messages := polled(consumer):
                say(line(number, messages))
        consumer.close()

    threads = [threading.Thread(target=consume, args=(number,)) for number in range(int(given["consumers"]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- producers


def paced(given: Given) -> None:
    """Writes at a constant rate, one at a time and without lingering. A value is the time of its produce call."""
    ended = end_of_input()
    producer = confluent_kafka.Producer({"bootstrap.servers": given["bootstrap"], "linger.ms": 0})
    partitions, pause = int(given["partitions"]), 1 / float(given["rate"])
    started = time.monotonic()
    for number in range(int(given["records"])):
        time.sleep(max(0.0, started + number * pause - time.monotonic()))
        if ended.is_set():
            return
        producer.produce(given["topic"], b"%.6f" % time.monotonic(), partition=number % partitions)
        producer.poll(0)
    flush(producer)


def burst(given: Given) -> None:
    """Writes all records at once, in batches larger than a share group's locks. A value is the time of its call."""
    producer = when_told(given, {"linger.ms": 200})
    for _ in range(int(given["records"])):
        producer.produce(given["topic"], b"%.6f" % time.monotonic(), partition=0)
    flush(producer)


def flushing(given: Given) -> None:
    """Repeatedly writes a record to each partition and waits until all are acknowledged: every batch has one record."""
    producer = when_told(given, {})
    for number in range(int(given["records"])):
        for partition in range(int(given["partitions"])):
            producer.produce(given["topic"], b"record %d" % number, partition=partition)
        flush(producer)


def when_told(given: Given, config: dict[str, str | int]) -> confluent_kafka.Producer:
    """A producer that is connected. Returns at a line of input."""
    producer = confluent_kafka.Producer({"bootstrap.servers": given["bootstrap"], "log_level": 0, **config})
    producer.list_topics(given["topic"], timeout=_DEADLINE_S)
    say("ready")
    sys.stdin.readline()
    return producer


def flush(producer: confluent_kafka.Producer) -> None:
    if producer.flush(_DEADLINE_S):
        raise TimeoutError("records weren't written in time")


if __name__ == "__main__":
    main(read, latency, work, compete, crowd, paced, burst, flushing)
