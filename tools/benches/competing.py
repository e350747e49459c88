"""Eight consumers compete for one partition, or four: on the embedded broker and a real one, alternately, in one run.

A producer writes a record to each partition and waits for its acknowledgement before it continues. So every record is a
separate batch, and most consumers are waiting at any time: this measures how fast the broker wakes and answers them.
The time is from the first record written to the last one received.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

import anyio

from kshare import AdminClient
from kshare.protocol.messages import ShareGroupDescribeRequest
from tests.helpers.plain_client import plain_client
from tools.benches import programs
from tools.benches.bench_options import Wishes
from tools.benches.broker import RELEASE, broker
from tools.benches.child import Child, children, next_line
from tools.benches.embedded import program
from tools.benches.study import Contest, Figure, Study, Trial

RECORDS = 5000
CONSUMERS = 8
ROUNDS = 5
TIME = "time"
_PRODUCERS = {1: 1, 4: 2}
"""The number of producers by the number of partitions."""
_JOIN_DEADLINE_S = 60.0
_DEADLINE_S = 300.0
_POLL_S = 0.1
_numbers = itertools.count(1)

Commands = Callable[[Mapping[str, str]], list[programs.Command]]


def _librdkafka(where: Mapping[str, str]) -> list[programs.Command]:
    return [programs.python("competing_confluent", consumers=CONSUMERS, **where)]


def _kshare(where: Mapping[str, str]) -> list[programs.Command]:
    return [programs.python("competing_kshare", **where)] * CONSUMERS


_CLIENTS: dict[str, Commands] = {"librdkafka": _librdkafka, "kshare": _kshare}


def study(wishes: Wishes) -> Study:
    records = wishes.records or RECORDS
    trials: dict[str, Trial] = {}
    contests = []
    for client, partitions in itertools.product(_CLIENTS, _PRODUCERS):
        case = f"{client}, {partitions} partition{'s' if partitions > 1 else ''}"
        ours, theirs = f"embedded, {case}", f"Kafka, {case}"
        trials[theirs] = partial(_compete_on_kafka, _CLIENTS[client], partitions, records)
        trials[ours] = partial(_compete_on_ours, _CLIENTS[client], partitions, records)
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


def _compete_on_ours(commands: Commands, partitions: int, records: int) -> Mapping[str, float]:
    with program() as bootstrap:
        return _compete(bootstrap, commands, partitions, records)


def _compete_on_kafka(commands: Commands, partitions: int, records: int) -> Mapping[str, float]:
    _warm_up(records)
    return _compete(broker().bootstrap, commands, partitions, records)


@functools.cache
def _warm_up(records: int) -> None:
    for commands in _CLIENTS.values():
        _compete(broker().bootstrap, commands, 1, records)


def _compete(bootstrap: str, commands: Commands, partitions: int, records: int) -> Mapping[str, float]:
    number = next(_numbers)
    where = {"bootstrap": bootstrap, "topic": f"competing-{number}", "group": f"competitors-{number}"}
    anyio.run(_prepare, where, partitions)
    producers = _PRODUCERS[partitions]
    writing = programs.python(
        "flushing_producer",
        bootstrap=bootstrap,
        topic=where["topic"],
        partitions=partitions,
        records=records // producers,
    )
    with children(commands(where)) as (_, lines), ExitStack() as stack:
        await_competitors(bootstrap, where["group"])
        writers = [Child(writing) for _ in range(producers)]
        for writer in writers:
            stack.callback(writer.end)
            writer.hear(_JOIN_DEADLINE_S)
        started = time.monotonic()
        for writer in writers:
            writer.tell("go")
        remaining, deadline = records // producers * producers * partitions, started + _DEADLINE_S
        while remaining > 0:
            line = next_line(lines, deadline)
            if line.text is None:
                raise line.child.failure("ended while there was work left")
            remaining -= int(line.text)
        return {TIME: time.monotonic() - started}


async def _prepare(where: Mapping[str, str], partitions: int) -> None:
    async with AdminClient(where["bootstrap"]) as admin:
        await admin.create_topic(where["topic"], partitions)
        await admin.alter_group_config(where["group"], {"share.auto.offset.reset": "earliest"})


def await_competitors(bootstrap: str, group: str) -> None:
    """Return when all members have received their assignment."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    deadline = time.monotonic() + _JOIN_DEADLINE_S
    with plain_client((host, int(port))) as client:
        while True:
            members = client.ask(ShareGroupDescribeRequest([group])).groups[0].members
            if sum(bool(member.assignment.topic_partitions) for member in members) == CONSUMERS:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(members)} of {CONSUMERS} members have joined {group} in time")
            time.sleep(_POLL_S)
