"""Runs several share consumers of confluent-kafka in threads. Prints the number of records of each poll."""

from __future__ import annotations

import threading

import confluent_kafka

from tools.benches.contenders.arguments import arguments, end_of_input, say


def work(given: dict[str, str]) -> None:
    ended = end_of_input()

    def consume() -> None:
        consumer = confluent_kafka.ShareConsumer(
            {"bootstrap.servers": given["bootstrap"], "group.id": given["group"], "log_level": 0}
        )
        consumer.subscribe([given["topic"]])
        while not ended.is_set():
            count = sum(message.error() is None for message in consumer.poll(0.5))
            if count:
                say(str(count))
        consumer.close()

    threads = [threading.Thread(target=consume) for _ in range(int(given["consumers"]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    work(arguments())
