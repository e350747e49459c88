"""Reads records as fast as possible with confluent-kafka's share consumer, and accesses every value."""

from __future__ import annotations

import confluent_kafka

from tools.benches.contenders.arguments import arguments, end_of_input
from tools.benches.contenders.meter import Meter


def read(given: dict[str, str]) -> None:
    ended = end_of_input()
    is_explicit = given["way"] == "explicit"
    config: dict[str, str | int] = {"bootstrap.servers": given["bootstrap"], "group.id": given["group"]}
    if "max_records" in given:
        config["max.poll.records"] = int(given["max_records"])
    if "fetch_bytes" in given:
        config["fetch.max.bytes"] = int(given["fetch_bytes"])
    if is_explicit:
        config["share.acknowledgement.mode"] = "explicit"
    seen, records, meter = 0, int(given["records"]), Meter()
    consumer = confluent_kafka.ShareConsumer(config)
    consumer.subscribe([given["topic"]])
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


if __name__ == "__main__":
    read(arguments())
