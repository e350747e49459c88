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
from collections.abc import Mapping
from functools import partial

from tools.benches import programs
from tools.benches.broker import RELEASE, broker
from tools.benches.child import children, spoken
from tools.benches.competing import CLIENTS, CONSUMERS, consumers, on_kafka, on_ours
from tools.benches.study import Contest, Figure, Study, Trial, Wishes

RECORDS = 50_000
RATE = 5_000
ROUNDS = 5
P50, P99, MOST, LEAST = "p50", "p99", "most", "least"
_LEFT_OUT_S = 1.0
_DEADLINE_S = 120.0
_LOADS = {"paced": (P50, P99), "burst": (MOST, LEAST)}


def study(wishes: Wishes) -> Study:
    records = wishes.records or RECORDS
    trials: dict[str, Trial] = {}
    contests = []
    for load, client in itertools.product(_LOADS, CLIENTS):
        ours, theirs = f"embedded, {load}, {client}", f"Kafka, {load}, {client}"
        run = partial(_once, load, client, records)
        trials |= {
            theirs: partial(on_kafka, run, partial(_warm_up, load, records)),
            ours: partial(on_ours, run),
        }
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


@functools.cache
def _warm_up(load: str, records: int) -> None:
    for client in CLIENTS:
        _once(load, client, records, broker().bootstrap)


def _once(load: str, client: str, records: int, bootstrap: str) -> Mapping[str, float]:
    with consumers(client, "crowd", bootstrap, 1) as (topic, lines):
        to = {"bootstrap": bootstrap, "topic": topic, "records": records}
        if load == "paced":
            writing = programs.python("by_confluent.paced", rate=RATE, partitions=1, **to)
        else:
            writing = programs.python("by_confluent.burst", **to)
        with children([writing]) as ((writer,), _):
            if load == "burst":
                writer.hear(_DEADLINE_S)
                writer.tell("go")
            shares: Counter[int] = Counter()
            delays: list[float] = []
            deadline = time.monotonic() + _DEADLINE_S
            while len(delays) < records:
                consumer, received = json.loads(spoken(lines, deadline)[1])
                shares[consumer] += len(received)
                delays += received
    return evaluate(load, shares, delays)


def evaluate(load: str, shares: Mapping[int, int], delays: list[float]) -> Mapping[str, float]:
    if load == "burst":
        return {MOST: max(shares.values()), LEAST: min(shares.get(each, 0) for each in range(CONSUMERS))}
    cuts = statistics.quantiles(delays[int(_LEFT_OUT_S * RATE) :], n=100, method="inclusive")
    return {P50: 1000 * cuts[49], P99: 1000 * cuts[98]}
