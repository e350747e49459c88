"""Writes all records at once, in batches larger than the locks of a share group. A value is the time of its call.

Starts when it gets a line of input.
"""

from __future__ import annotations

import sys
import time

import confluent_kafka

from tools.benches.contenders.arguments import arguments, say

_DEADLINE_S = 30.0


def produce(given: dict[str, str]) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": given["bootstrap"], "linger.ms": 200, "log_level": 0}
    )
    producer.list_topics(given["topic"], timeout=_DEADLINE_S)
    say("ready")
    sys.stdin.readline()
    for _ in range(int(given["records"])):
        producer.produce(given["topic"], b"%.6f" % time.monotonic(), partition=0)
    if producer.flush(_DEADLINE_S):
        raise TimeoutError("records weren't written in time")


if __name__ == "__main__":
    produce(arguments())
