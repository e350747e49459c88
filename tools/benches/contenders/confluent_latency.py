"""Measures the latency until confluent-kafka has a record, and until it knows that the acknowledgement is confirmed."""

from __future__ import annotations

import json
import time

import confluent_kafka

from tools.benches.contenders.arguments import arguments, end_of_input, say


def read(given: dict[str, str]) -> None:
    ended = end_of_input()
    records, is_explicit = int(given["records"]), given["mode"] == "explicit"
    consumer = confluent_kafka.ShareConsumer(
        {
            "bootstrap.servers": given["bootstrap"],
            "group.id": given["group"],
            "share.acknowledgement.mode": "explicit" if is_explicit else "implicit",
        }
    )
    consumer.subscribe([given["topic"]])
    hand: list[float] = []
    acknowledged: list[float] = []
    while len(hand) < records and not ended.is_set():
        messages = [message for message in consumer.poll(0.5) if message.error() is None]
        received = time.monotonic()
        hand += [time.monotonic() - float(message.value() or b"") for message in messages]
        if messages and is_explicit:
            for message in messages:
                consumer.acknowledge(message)
            results = consumer.commit_sync()
            if any(results.values()):
                raise RuntimeError(f"refused: {results}")
            acknowledged += [time.monotonic() - received] * len(messages)
    consumer.close()
    say(json.dumps([hand, acknowledged]))


if __name__ == "__main__":
    read(arguments())
