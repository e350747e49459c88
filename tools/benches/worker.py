"""Workers: functions that run for each record.

What a function costs that does nothing: in kshare's loop, in kshare's worker, in FastStream (a consumer group), and in
taskiq (no network). And handlers that sleep 5 ms, but every hundredth 500 ms: kshare's worker, and confluent-kafka's
share consumer with a pool of threads, which has to acknowledge all records of a poll before the next one. There the
time runs from the first record until everything is settled and the consumer closed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from functools import partial

from tools.benches.broker import RELEASE, at, filled_topic, fresh_topic, produce
from tools.benches.readers import CPU, RATE, Reader, ours
from tools.benches.study import TIME, Contest, Figure, Study, Trial, Wishes

RECORDS = 500_000
ROUNDS = 5
PARTITIONS = 4
CONCURRENCY = 100
SLOW = 10_000
SLOW_MS, STRAGGLER_MS, EVERY = 5.0, 500.0, 100
_DEADLINE_S = 600.0
_WARM_UPS = 10
_LOOP, _WORKER = "kshare's loop", "kshare's worker"
_READERS = {
    _LOOP: ours("by_kshare.read", way="records"),
    _WORKER: ours("workers.by_kshare", way="nothing"),
    "FastStream": ours("workers.by_faststream"),
    "taskiq in memory": ours("workers.by_taskiq"),
}
_SLOW_READERS = {
    _WORKER: ours("workers.by_kshare", way="slow"),
    "confluent-kafka and threads": ours("workers.by_confluent"),
}
_SHARE_OF_OTHERS = 0.1
"""FastStream and taskiq take so long that a part of the records is enough for them."""


def study(wishes: Wishes) -> Study:
    records = wishes.records or RECORDS
    trials: dict[str, Trial] = {name: partial(_read, name, records) for name in _READERS}
    trials |= {f"{name}, slow handlers": partial(_work, name) for name in _SLOW_READERS}
    return Study(
        "worker",
        [
            f"Kafka {RELEASE}; {records:,} records of 100 bytes in {PARTITIONS} partitions, a tenth of them for "
            f"FastStream and taskiq; concurrency {CONCURRENCY}",
            f"slow handlers: {SLOW:,} records, {SLOW_MS:g} ms, every {EVERY}th {STRAGGLER_MS:g} ms",
        ],
        [
            Figure(CPU, "microseconds a record", form=".3f"),
            Figure(RATE, "a second", more_is_better=True),
            Figure(TIME, "seconds", form=".2f"),
        ],
        trials,
        [
            *(Contest(CPU, _WORKER, other) for other in _READERS if other != _WORKER),
            Contest(TIME, f"{_WORKER}, slow handlers", "confluent-kafka and threads, slow handlers"),
        ],
    )


def _read(name: str, records: int) -> Mapping[str, float]:
    _warm_up(records)
    count = records if name in (_LOOP, _WORKER) else max(1, int(records * _SHARE_OF_OTHERS))
    return _run(_READERS[name], filled_topic(PARTITIONS, records), count)


def _work(name: str) -> Mapping[str, float]:
    figures = _run(_SLOW_READERS[name], _slow(), SLOW)
    return {TIME: SLOW / figures[RATE], CPU: figures[CPU]}


def _run(reader: Reader, topic: str, count: int) -> Mapping[str, float]:
    return reader.read(count, _DEADLINE_S, **at(topic), max_records=None, concurrency=CONCURRENCY)


@functools.cache
def _slow() -> str:
    topic = fresh_topic(PARTITIONS)
    values = (STRAGGLER_MS if number % EVERY == 0 else SLOW_MS for number in range(SLOW))
    produce(topic, ((number % PARTITIONS, b"%g" % value) for number, value in enumerate(values)))
    return topic


@functools.cache
def _warm_up(records: int) -> None:
    for _ in range(_WARM_UPS):
        _run(_READERS[_LOOP], filled_topic(PARTITIONS, records), records)
