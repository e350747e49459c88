"""Writes records at a constant rate, one at a time and without lingering. A value is the time of its produce call."""

from __future__ import annotations

import time

import confluent_kafka

from tools.benches.contenders.arguments import arguments, end_of_input


def produce(given: dict[str, str]) -> None:
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
    producer.flush(30)


if __name__ == "__main__":
    produce(arguments())
