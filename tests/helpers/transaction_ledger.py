"""What callers were told of their transactions, against what another client reads with `read_committed`.

Knows nothing of kshare: records have unique values, and each belongs to one transaction.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from confluent_kafka import Consumer, Producer, TopicPartition

_DEADLINE_S = 90.0


class Outcome(StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    """It isn't known: all of its records are visible, or none."""


@dataclass
class Told:
    """One transaction."""

    name: str
    values: set[bytes] = field(default_factory=set)
    """The records that were accepted for it, by whatever task."""
    outcome: Outcome | None = None
    why: str = ""


@dataclass
class Ledger:
    transactions: list[Told] = field(default_factory=list)
    fenced: int = 0
    """How many producers were told that they are fenced."""

    def begin(self) -> Told:
        self.transactions.append(Told(f"{len(self.transactions)}"))
        return self.transactions[-1]

    def problems(self, visible: Iterable[bytes]) -> Iterator[str]:
        """What was told wrongly. `visible`: the values of all records that a `read_committed` consumer gets."""
        counts = Counter(visible)
        for told in self.transactions:
            seen = {value for value in told.values if counts[value]}
            doubled = [value for value in told.values if counts[value] > 1]
            for value in told.values:
                counts.pop(value, None)
            is_right = {
                Outcome.COMMITTED: seen == told.values,
                Outcome.ABORTED: not seen,
                Outcome.OPEN: seen in (set(), told.values),
                None: False,
            }
            if doubled or not is_right[told.outcome]:
                yield (
                    f"transaction {told.name} was told to be {told.outcome} ({told.why}): {len(seen)} of "
                    f"{len(told.values)} records are visible, {len(doubled)} more than once"
                )
        for value in counts:
            yield f"{value!r} is visible, and was accepted for no transaction"

    def summary(self) -> str:
        count = Counter(told.outcome for told in self.transactions)
        records = sum(len(told.values) for told in self.transactions)
        outcomes = ", ".join(f"{count[outcome]} {outcome}" for outcome in Outcome)
        return f"{len(self.transactions)} transactions of {records} records: {outcomes}; {self.fenced} fenced"


def visible(bootstrap: str, topic: str, partitions: int) -> list[bytes]:
    """All values, as librdkafka reads them. All transactions must be over: records behind an open one aren't visible.

    A last record in each partition, outside of transactions, shows that everything before was read.
    """
    last = b"last record"
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(partitions):
        producer.produce(topic, last, partition=partition)
    assert producer.flush(_DEADLINE_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    found: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        remaining = partitions
        deadline = time.monotonic() + _DEADLINE_S
        while remaining:
            assert time.monotonic() < deadline, f"a transaction is still open; read {len(found)} records"
            message = consumer.poll(1.0)
            if message is not None and not message.error():
                value = message.value() or b""
                remaining -= value == last
                found.append(value)
    finally:
        consumer.close()
    return [value for value in found if value != last]
