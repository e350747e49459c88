"""Measures a consumer's memory during a long run, and while its handler is stalled with a full topic.

If memory doesn't grow, the last sample is close to the first. All with defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tools.benches import programs
from tools.benches.broker import at, filled_topic
from tools.benches.child import children
from tools.benches.study import Figure, Study, Wishes

RECORDS = 20_000_000
STALLED_S = 30.0
PARTITIONS = 4
ROUNDS = 1
SAMPLES = 10
_SILENCE_S = 300.0
_AT = [f"{number}/{SAMPLES}" for number in range(1, SAMPLES + 1)]


def study(wishes: Wishes) -> Study:
    records, seconds = wishes.records or RECORDS, wishes.seconds or STALLED_S
    return Study(
        "memory",
        [
            f"resident MiB in {SAMPLES} samples: while {records:,} records of 100 bytes are consumed, "
            f"and over {seconds:.0f} seconds in which the first record is never settled",
        ],
        [
            *(Figure(at, "MiB", form=".1f") for at in _AT),
            Figure("growth", "MiB from the first sample to the last", form=".1f"),
        ],
        {
            "kshare batches": partial(_sample, records, way="batches", records=records),
            "kshare records": partial(_sample, records, way="records", records=records),
            "kshare, stalled": partial(_sample, records, way="stalled", seconds=seconds),
        },
        [],
        is_series=True,
    )


def _sample(written: int, **arguments: object) -> Mapping[str, float]:
    command = programs.python("by_kshare.memory", **at(filled_topic(PARTITIONS, written)), **arguments)
    with children([command]) as ((child,), _):
        return evaluate([float(child.hear(_SILENCE_S)) for _ in range(SAMPLES)])


def evaluate(samples: Sequence[float]) -> Mapping[str, float]:
    return {**dict(zip(_AT, samples, strict=True)), "growth": samples[-1] - samples[0]}
