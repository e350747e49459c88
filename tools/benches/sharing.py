"""Measures how evenly four consumers in four processes with slow handlers share work. Is one idle while others work?

The ideal time is the work divided by four. Time is measured from the first record handed out to the end of the last
handler. The records are written when all four have joined. A handler sleeps for the time in its record. All with
defaults.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from functools import partial

from tools.benches import programs
from tools.benches.broker import at, await_members, fresh_topic, produce
from tools.benches.child import children, spoken
from tools.benches.study import Contest, Figure, Study, Trial, Wishes

RECORDS = 20_000
CONSUMERS = 4
ROUNDS = 1
PARTITIONS = (1, 3)
MIXED_MS = (1.0, 50.0)
SEED = 932
VALUE_BYTES = 100
_SETTLED_S = 1.0

_CONTENDERS = {
    "kshare": partial(programs.python, "by_kshare.work"),
    "confluent-kafka": partial(programs.python, "by_confluent.work"),
    "Java": partial(programs.java, "ShareWork"),
}


def study(wishes: Wishes) -> Study:
    records = wishes.records or RECORDS
    trials: dict[str, Trial] = {}
    contests = []
    for partitions in PARTITIONS:
        for title, work in handlers(records).items():
            case = f"{title}, {partitions} partition{'s' if partitions > 1 else ''}"
            for name, program in _CONTENDERS.items():
                trials[f"{name}, {case}"] = partial(_share, program, partitions, work)
            contests += [
                Contest("time", f"kshare, {case}", f"{peer}, {case}")
                for peer in _CONTENDERS
                if peer != "kshare"
            ]
    return Study(
        "sharing",
        [
            f"{records:,} records of {VALUE_BYTES} bytes, written after all consumers have joined; with defaults",
            f"{CONSUMERS} consumers in separate processes; mixed handlers: seed {SEED}",
            "handlers sleep, and sleep longer than they should on a busy machine; what `busy` lacks of 100 % is the "
            "time spent waiting for records (87 % corresponds to 1.15 times the handlers' time)",
        ],
        [
            Figure("time", "times the ideal", form=".3f"),
            Figure("least", "records of the consumer with the fewest"),
            Figure("most", "records of the consumer with the most"),
            Figure("busy", "% of the consumers' time in handlers", more_is_better=True, form=".1f"),
            Figure("again", "records handled more than once"),
        ],
        trials,
        contests,
    )


def handlers(records: int) -> Mapping[str, Sequence[float]]:
    """The handlers' times: milliseconds for each record."""
    chance = random.Random(SEED)
    return {
        "5 ms": [5.0] * records,
        "1 to 50 ms": [round(chance.uniform(*MIXED_MS), 3) for _ in range(records)],
    }


def _share(program: partial[programs.Command], partitions: int, work: Sequence[float]) -> Mapping[str, float]:
    where = at(fresh_topic(partitions))
    ideal = sum(work) / 1000 / CONSUMERS
    spans: dict[int, list[tuple[float, float]]] = {}
    seen: set[int] = set()
    with children([program(**where)] * CONSUMERS) as (workers, lines):
        await_members(where["bootstrap"], where["group"], CONSUMERS)
        time.sleep(_SETTLED_S)
        produce(where["topic"], ((n % partitions, _value(n, ms)) for n, ms in enumerate(work)))
        deadline = time.monotonic() + 8 * ideal + 60
        while len(seen) < len(work):
            worker, text = spoken(lines, deadline)
            number, started, done = text.split()
            seen.add(int(number))
            spans.setdefault(worker.pid, []).append((float(started), float(done)))
        for worker in workers:
            spans.setdefault(worker.pid, [])
    return evaluate(list(spans.values()), len(work), ideal)


def _value(number: int, milliseconds: float) -> bytes:
    """A record's value, padded so that the producer's batches have as many records as with ordinary values."""
    return (b"%d %.3f" % (number, milliseconds)).ljust(VALUE_BYTES)


def evaluate(
    spans: Sequence[Sequence[tuple[float, float]]], records: int, ideal: float
) -> Mapping[str, float]:
    """Compute the figures from each consumer's handler calls (started, done)."""
    every = [span for calls in spans for span in calls]
    elapsed = max(done for _, done in every) - min(started for started, _ in every)
    busy = math.fsum(done - started for started, done in every)
    return {
        "time": elapsed / ideal,
        "least": min(map(len, spans)),
        "most": max(map(len, spans)),
        "busy": 100 * busy / (elapsed * len(spans)),
        "again": len(every) - records,
    }
