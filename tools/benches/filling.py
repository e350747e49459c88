"""Creates topics with records of one size, written by Kafka's own performance tool."""

from __future__ import annotations

from tools.benches.broker import broker, fresh_topic
from tools.benches.measure import progress

_AT_ONCE = 4_000_000
"""The maximum number of records per call, since calls of the tool have a deadline."""


def filled_topic(partitions: int, records: int, size: int = 100, codec: str = "none") -> str:
    topic = fresh_topic(partitions)
    for begin in range(0, records, _AT_ONCE):
        progress(f"writing records of {size} bytes, {begin:,} of {records:,}")
        broker().run_tool(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topic, "--num-records", str(min(_AT_ONCE, records - begin))),
            *("--record-size", str(size), "--throughput", "-1"),
            *("--command-property", "linger.ms=5", "batch.size=65536", f"compression.type={codec}"),
        )
    return topic
