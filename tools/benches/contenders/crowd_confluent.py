"""Runs several share consumers of confluent-kafka in threads. Prints how old the records of each poll are."""

from __future__ import annotations

import json
import threading
import time

import confluent_kafka

from tools.benches.contenders.arguments import arguments, end_of_input, say


def work(given: dict[str, str]) -> None:
    ended = end_of_input()

    def consume(number: int) -> None:
        consumer = confluent_kafka.ShareConsumer(
            {"bootstrap.servers": given["bootstrap"], "group.id": given["group"], "log_level": 0}
        )
        consumer.subscribe([given["topic"]])
        while not ended.is_set():
            messages = [message for message in consumer.poll(0.5) if message.error() is None]
            if messages:
                now = time.monotonic()
                say(json.dumps([number, [round(now - float(each.value() or b""), 6) for each in messages]]))
        consumer.close()

    threads = [threading.Thread(target=consume, args=(number,)) for number in range(int(given["consumers"]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    work(arguments())
