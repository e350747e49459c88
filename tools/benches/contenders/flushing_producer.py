"""Repeatedly writes a record to each partition and waits until all are acknowledged: every batch has one record.

Starts when it gets a line of input.
"""

from __future__ import annotations

import sys

import confluent_kafka

from tools.benches.contenders.arguments import arguments, say

_DEADLINE_S = 30.0


def produce(given: dict[str, str]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": given["bootstrap"], "log_level": 0})
    producer.list_topics(given["topic"], timeout=_DEADLINE_S)
    say("ready")
    sys.stdin.readline()
    for number in range(int(given["records"])):
        for partition in range(int(given["partitions"])):
            producer.produce(given["topic"], b"record %d" % number, partition=partition)
        if producer.flush(_DEADLINE_S):
            raise TimeoutError("records weren't written in time")


if __name__ == "__main__":
    produce(arguments())
