"""One of several consumers that share records: confluent-kafka with defaults. A record contains its handler's time."""

from __future__ import annotations

import time

import confluent_kafka

from tools.benches.contenders.arguments import arguments, end_of_input, say


def work(given: dict[str, str]) -> None:
    ended = end_of_input()
    consumer = confluent_kafka.ShareConsumer(
        {"bootstrap.servers": given["bootstrap"], "group.id": given["group"]}
    )
    consumer.subscribe([given["topic"]])
    while not ended.is_set():
        for message in consumer.poll(0.5):
            if message.error() is not None:
                continue
            started = time.monotonic()
            number, milliseconds = (message.value() or b"").split()
            time.sleep(float(milliseconds) / 1000)
            say(f"{int(number)} {started:.6f} {time.monotonic():.6f}")
    consumer.close()


if __name__ == "__main__":
    work(arguments())
