"""Eight consumers compete for one partition, or four: on the embedded broker and a real one, alternately, in one run.

A producer writes a record to each partition and waits for its acknowledgement before it continues. So every record is a
separate batch, and most consumers are waiting at any time: this measures how fast the broker wakes and responses them.
The time is from the first record written to the last one received.
"""

from __future__ import annotations

import functools
import itertools
import queue
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import anyio

from kshare import AdminClient
from tools.benches import programs
from tools.benches.broker import RELEASE, await_members, broker
from tools.benches.child import Line, children, spoken
from tools.benches.embedded import program
from tools.benches.study import TIME, Contest, Figure, Study, Trial, Wishes

RECORDS = 5000
CONSUMERS = 8
ROUNDS = 5
CLIENTS = ("librdkafka", "kshare")
_PRODUCERS = {1: 1, 4: 2}
"""The number of producers by the number of partitions."""
_DEADLINE_S = 300.0
_numbers = itertools.count(1)

Run = Callable[[str], Mapping[str, float]]
"""Measures on the broker at this address."""


def study(wishes: Wishes) -> Study:
    records = wishes.records or RECORDS
    trials: dict[str, Trial] = {}
    contests = []
    for client, partitions in itertools.product(CLIENTS, _PRODUCERS):
        case = f"{client}, {partitions} partition{'s' if partitions > 1 else ''}"
        ours, theirs = f"embedded, {case}", f"Kafka, {case}"
        run = partial(_compete, client, partitions, records)
        trials |= {theirs: partial(on_kafka, run, partial(_warm_up, records)), ours: partial(on_ours, run)}
        contests.append(Contest(TIME, ours, theirs))
    return Study(
        "competing",
        [
            f"{CONSUMERS} consumers; {records:,} records a partition, written one by one by a producer, or by two to 4 "
            "partitions",
            f"Kafka {RELEASE}, which has done the same once before; librdkafka: confluent-kafka's consumers, "
            "threads of one process; kshare: processes",
        ],
        [Figure(TIME, "seconds", form=".2f")],
        trials,
        contests,
    )


def on_ours(run: Run) -> Mapping[str, float]:
    with program() as bootstrap:
        return run(bootstrap)


def on_kafka(run: Run, warm_up: Callable[[], None]) -> Mapping[str, float]:
    warm_up()
    return run(broker().bootstrap)


@functools.cache
def _warm_up(records: int) -> None:
    for client in CLIENTS:
        _compete(client, 1, records, broker().bootstrap)


def _compete(client: str, partitions: int, records: int, bootstrap: str) -> Mapping[str, float]:
    producers = _PRODUCERS[partitions]
    share = records // producers
    with consumers(client, "compete", bootstrap, partitions) as (topic, lines):
        writing = programs.python(
            "by_confluent.flushing", bootstrap=bootstrap, topic=topic, partitions=partitions, records=share
        )
        with children([writing] * producers) as (writers, _):
            for writer in writers:
                spoken(writer.lines, time.monotonic() + _DEADLINE_S)
            started = time.monotonic()
            for writer in writers:
                writer.tell("go")
            remaining = share * producers * partitions
            while remaining > 0:
                remaining -= int(spoken(lines, started + _DEADLINE_S)[1])
            return {TIME: time.monotonic() - started}


@contextmanager
def consumers(
    client: str, what: str, bootstrap: str, partitions: int
) -> Iterator[tuple[str, queue.Queue[Line]]]:
    """Eight consumers that have joined a new group: their new topic, and the lines that they print."""
    number = next(_numbers)
    where = {"bootstrap": bootstrap, "topic": f"crowded-{number}", "group": f"crowd-{number}"}
    anyio.run(_prepare, where, partitions)
    if client == "kshare":
        commands = [programs.python(f"by_kshare.{what}", number=each, **where) for each in range(CONSUMERS)]
    else:
        commands = [programs.python(f"by_confluent.{what}", consumers=CONSUMERS, **where)]
    with children(commands) as (_, lines):
        await_members(bootstrap, where["group"], CONSUMERS)
        yield where["topic"], lines


async def _prepare(where: Mapping[str, str], partitions: int) -> None:
    async with AdminClient(where["bootstrap"]) as admin:
        await admin.create_topic(where["topic"], partitions)
        await admin.alter_group_config(where["group"], {"share.auto.offset.reset": "earliest"})
