"""Eight consumers of one partition, on the embedded broker and a real one, alternately, in one run.

Paced: a producer writes 5,000 records a second. How long does a record take until a consumer has it?
Burst: 50,000 records are written at once, in batches larger than the group's locks. How evenly are they shared?
"""

from __future__ import annotations

import functools
import itertools
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import anyio

from kshare import AdminClient
from tools.benches import programs
from tools.benches.bench_options import Wishes
from tools.benches.broker import RELEASE, broker
from tools.benches.child import children, next_line
from tools.benches.competing import CONSUMERS, await_competitors
from tools.benches.embedded import program
from tools.benches.study import Contest, Figure, Study, Trial

RECORDS = 50_000
RATE = 5_000
ROUNDS = 5
P50, P99, MOST, LEAST = "p50", "p99", "most", "least"
_LEFT_OUT_S = 1.0
_DEADLINE_S = 120.0
_numbers = itertools.count(1)

Commands = Callable[[Mapping[str, str]], list[programs.Command]]


def _librdkafka(where: Mapping[str, str]) -> list[programs.Command]:
    return [programs.python("crowd_confluent", consumers=CONSUMERS, **where)]


def _kshare(where: Mapping[str, str]) -> list[programs.Command]:
    return [programs.python("crowd_kshare", number=number, **where) for number in range(CONSUMERS)]


_CLIENTS: dict[str, Commands] = {"librdkafka": _librdkafka, "kshare": _kshare}
_LOADS = {"paced": (P50, P99), "burst": (MOST, LEAST)}


def study(wishes: Wishes) -> Study:
    records = wishes.records or RECORDS
    trials: dict[str, Trial] = {}
    contests = []
    for load, client in itertools.product(_LOADS, _CLIENTS):
        ours, theirs = f"embedded, {load}, {client}", f"Kafka, {load}, {client}"
        trials[theirs] = partial(_on_kafka, load, client, records)
        trials[ours] = partial(_on_ours, load, client, records)
        contests += [
            Contest(figure, ours, theirs) for figure in _LOADS[load] if figure != LEAST
        ]  # that may be 0
    return Study(
        "crowd",
        [
            f"{CONSUMERS} consumers of one partition; {records:,} records, at {RATE:,} a second without those of the "
            "first second (paced), or at once in batches larger than the locks (burst)",
            f"Kafka {RELEASE}, which has done the same once before; librdkafka: confluent-kafka's consumers, threads "
            "of one process; kshare: processes",
            "latencies of seconds mean that this machine is too small for the broker and its clients at this rate",
        ],
        [
            Figure(P50, "milliseconds until a consumer has the record", form=".2f"),
            Figure(P99, "milliseconds until a consumer has the record", form=".2f"),
            Figure(MOST, "records of the consumer with the most"),
            Figure(LEAST, "records of the consumer with the fewest", more_is_better=True),
        ],
        trials,
        contests,
    )


def _on_ours(load: str, client: str, records: int) -> Mapping[str, float]:
    with program() as bootstrap:
        return _once(bootstrap, load, client, records)


def _on_kafka(load: str, client: str, records: int) -> Mapping[str, float]:
    _warm_up(load, records)
    return _once(broker().bootstrap, load, client, records)


@functools.cache
def _warm_up(load: str, records: int) -> None:
    for client in _CLIENTS:
        _once(broker().bootstrap, load, client, records)


def _once(bootstrap: str, load: str, client: str, records: int) -> Mapping[str, float]:
    number = next(_numbers)
    where = {"bootstrap": bootstrap, "topic": f"crowded-{number}", "group": f"crowd-{number}"}
    anyio.run(_prepare, where)
    to = {"bootstrap": bootstrap, "topic": where["topic"], "records": records}
    if load == "paced":
        writing = programs.python("paced_producer", rate=RATE, partitions=1, **to)
    else:
        writing = programs.python("burst_producer", **to)
    with children(_CLIENTS[client](where)) as (_, lines):
        await_competitors(bootstrap, where["group"])
        with children([writing]) as ((writer,), _):
            if load == "burst":
                writer.hear(_DEADLINE_S)
                writer.tell("go")
            shares: Counter[int] = Counter()
            delays: list[float] = []
            deadline = time.monotonic() + _DEADLINE_S
            while len(delays) < records:
                line = next_line(lines, deadline)
                if line.text is None:
                    raise line.child.failure("ended while there was work left")
                consumer, received = json.loads(line.text)
                shares[consumer] += len(received)
                delays += received
    return evaluate(load, shares, delays)


def evaluate(load: str, shares: Mapping[int, int], delays: list[float]) -> Mapping[str, float]:
    if load == "burst":
        return {MOST: max(shares.values()), LEAST: min(shares.get(each, 0) for each in range(CONSUMERS))}
    cuts = statistics.quantiles(delays[int(_LEFT_OUT_S * RATE) :], n=100, method="inclusive")
    return {P50: 1000 * cuts[49], P99: 1000 * cuts[98]}


async def _prepare(where: Mapping[str, str]) -> None:
    async with AdminClient(where["bootstrap"]) as admin:
        await admin.create_topic(where["topic"], 1)
        await admin.alter_group_config(where["group"], {"share.auto.offset.reset": "earliest"})
