"""Measures latency at a constant 200 records per second, and the cost of an idle consumer. All with defaults.

In hand: from the producer's call until the consumer has the record. Acknowledged: from there until the client knows
that the broker has confirmed the acknowledgement. Both clients have a commit that waits for this. They are measured
without it, and with a commit after everything that they receive. Idle: the CPU time of the whole process.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from functools import cache, partial

from tools.benches import programs
from tools.benches.broker import at, await_members, fresh_topic
from tools.benches.child import children
from tools.benches.study import Contest, Figure, Study, Trial, Wishes, progress

RATE = 200
RECORDS = 4_000
LEFT_OUT = 200
"""Records of the first second, with connecting, filling caches, and the broker's first writes for the group."""
PARTITIONS = 4
ROUNDS = 3
IDLE_S = 20.0
_BEFORE_IDLE_S = 6.0
"""Longer than the time between two heartbeats."""
_CONTENDERS = {"kshare": "by_kshare", "kshare.sync": "by_kshare_sync", "confluent-kafka": "by_confluent"}
_WITHOUT_WORK = {"kshare.sync"}
"""Contenders without a program for the idle measurement."""
_HAND = "in hand {}"
_ACKNOWLEDGED = "acknowledged {}"
_FLOORS = {"null client": "socket", "null client on asyncio": "asyncio"}
"""Minimal Python clients, which only send requests and wait. What our client takes longer is due to its own code, not
to the interpreter or the event loop."""
_EACH = "{}, commit after each"
_QUANTILES = {"p50": 50, "p99": 99}


def study(wishes: Wishes) -> Study:
    records, seconds = wishes.records or RECORDS, wishes.seconds or IDLE_S
    trials: dict[str, Trial] = {}
    for name, program in _CONTENDERS.items():
        trials[name] = partial(_delays, f"{program}.latency", "implicit", records)
        trials[_EACH.format(name)] = partial(_delays, f"{program}.latency", "explicit", records)
        if name not in _WITHOUT_WORK:
            trials[f"{name}, idle"] = partial(_idle, f"{program}.work", seconds)
    for name, wait in _FLOORS.items():
        trials[_EACH.format(name)] = partial(
            _delays, "by_null_client.latency", "explicit", records, wait=wait
        )
    ours, blocking, theirs = _CONTENDERS
    pairs = [(ours, theirs), (blocking, theirs), *((floor, theirs) for floor in _FLOORS)]
    contests = [
        *(Contest(_HAND.format(q), contender, theirs) for contender in (ours, blocking) for q in _QUANTILES),
        *(
            Contest(what.format(q), _EACH.format(first), _EACH.format(second))
            for what in (_HAND, _ACKNOWLEDGED)
            for first, second in pairs
            for q in _QUANTILES
        ),
        Contest("idle", f"{ours}, idle", f"{theirs}, idle"),
    ]
    return Study(
        "latency",
        [
            f"{records:,} records at {RATE} per second in {PARTITIONS} partitions, without the first {LEFT_OUT}",
            "null client: accepts and waits for the response on a blocking socket; finds values, decodes no records",
            "null client on asyncio: the same in an event loop whose callback wakes the task, with no other library",
            f"idle: {seconds:.0f} seconds on an empty topic",
        ],
        [
            *(Figure(_HAND.format(q), "milliseconds", form=".2f") for q in _QUANTILES),
            *(Figure(_ACKNOWLEDGED.format(q), "milliseconds", form=".2f") for q in _QUANTILES),
            Figure("idle", "% of a core", form=".2f"),
        ],
        trials,
        contests,
    )


def _delays(program: str, mode: str, records: int, **extra: str) -> Mapping[str, float]:
    _warm_up(records)
    return _once(program, mode, records, **extra)


@cache
def _warm_up(records: int) -> None:
    """Warm up the broker: while its code isn't compiled, it takes about three times as long."""
    for program in _CONTENDERS.values():
        progress(f"latency: warming up the broker with {program}")
        _once(f"{program}.latency", "explicit", records)


def _once(program: str, mode: str, records: int, **extra: str) -> Mapping[str, float]:
    where = at(fresh_topic(PARTITIONS))
    producer = programs.python(
        "by_confluent.paced", rate=RATE, partitions=PARTITIONS, records=records, **where
    )
    with children([programs.python(program, mode=mode, records=records, **where, **extra)]) as ((reader,), _):
        await_members(where["bootstrap"], where["group"], 1)
        with children([producer]):
            return evaluate(*json.loads(reader.hear(records / RATE + 60)))


def evaluate(hand: Sequence[float], acknowledged: Sequence[float]) -> Mapping[str, float]:
    """The quantiles, in milliseconds, of delays in seconds. There is no figure without delays."""
    figures: dict[str, float] = {}
    for name, delays in ((_HAND, hand[LEFT_OUT:]), (_ACKNOWLEDGED, acknowledged[LEFT_OUT:])):
        if delays:
            cuts = statistics.quantiles(delays, n=100, method="inclusive")
            figures |= {name.format(q): 1000 * cuts[percent - 1] for q, percent in _QUANTILES.items()}
    return figures


def _idle(program: str, seconds: float) -> Mapping[str, float]:
    where = at(fresh_topic(PARTITIONS))
    with children([programs.python(program, **where)]) as ((consumer,), _):
        await_members(where["bootstrap"], where["group"], 1)
        time.sleep(_BEFORE_IDLE_S)
        before, started = consumer.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        return {"idle": 100 * (consumer.cpu_seconds() - before) / (time.monotonic() - started)}
