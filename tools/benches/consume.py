"""One consumer reads a topic from one real broker: kshare, other clients, and a client that doesn't decode records.

Each contender is a separate process with its own share group. Time and CPU are measured from the first record to the
last; the time to the first record is a separate figure. "tuned": 4,000 locks per partition, and as many records at once
as that allows; "defaults": no options set. The null client shows what the broker allows: it is the upper bound for
clients that have one fetch under way at a time. Before the measurements, the broker serves millions of records, since a
cold JVM takes twice as long.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from tools.benches import programs
from tools.benches.broker import RELEASE, at, filled_topic
from tools.benches.readers import CPU, FIRST, RATE, Reader, apache, franz_go, ours
from tools.benches.study import Contest, Figure, Study, Trial, Wishes, progress

RECORDS = 2_000_000
WARM_UPS = 60
"""Reads before the measurements, until the broker's code is compiled. Alone on a fresh broker, a null client improves
from 1.8 to 3.5 million records per second in the first eight million records, and to 7 in the next thirty million;
ours, in batches, from 0.7 to 2.3 in 36 million records, and stays at 3.1 after 50 million."""
PARTITIONS = 4
LOCKS = 4000
TUNED = 16_000
ROUNDS = 3
SIZE, BYTES = "max.poll.records", "fetch.max.bytes"
_ITS_DEFAULT = 50 * 1024 * 1024
_CONFLUENT_TRIES = (
    *((size, _ITS_DEFAULT) for size in (500, 4000, 8000, 16_000)),
    (16_000, 4 * 1024 * 1024),
    (16_000, 1024 * 1024),
)
"""Smaller sizes in bytes are those that our client arrives at automatically."""
_DEADLINE_S = 300.0


@dataclass(frozen=True)
class Load:
    """Records in a topic. Their number is the requested one times `share`."""

    title: str
    bytes: int
    codec: str
    share: float

    def count(self, records: int) -> int:
        return max(1, int(records * self.share))


PLAIN = Load("", 100, "none", 1)
LZ4 = Load(", lz4", 100, "lz4", 1)
LARGE = Load(", 1 KiB", 1024, "none", 0.25)
_NULL, _CONFLUENT, _CONFLUENT_EACH = "null client", "confluent-kafka", "confluent-kafka accepting each"
_READERS = {
    _NULL: ours("by_null_client.read"),
    "kshare batches": ours("by_kshare.read", way="batches"),
    "kshare records of batches": ours("by_kshare.read", way="records of batches"),
    "kshare records": ours("by_kshare.read", way="records"),
    "kshare accepting each": ours("by_kshare.read", way="explicit"),
    "kshare.sync batches": ours("by_kshare_sync.read", way="batches"),
    "kshare.sync records": ours("by_kshare_sync.read", way="records"),
    "kshare.sync accepting each": ours("by_kshare_sync.read", way="explicit"),
    _CONFLUENT: ours("by_confluent.read", way="implicit"),
    _CONFLUENT_EACH: ours("by_confluent.read", way="explicit"),
    "Java": apache(),
    "franz-go": franz_go(),
}
_SYNC_WAYS = ("batches", "records", "accepting each")
_WARMERS = (_NULL, *3 * ("kshare batches",), _CONFLUENT)
"""Clients that warm up the broker in turn: a JVM optimizes for the requests that it has seen, and would be slow for
others. Ours take longest: confluent-kafka is as fast after four of its turns (0.79 million per second) as after twenty
(0.73 to 0.78)."""
_AT_DEFAULTS = (_NULL, "kshare batches", "kshare records", _CONFLUENT, "Java", "franz-go")
_OTHER_LOADS = (_NULL, "kshare batches", _CONFLUENT)


def study(wishes: Wishes) -> Study:
    records = wishes.records or RECORDS
    readers = [name for name in _READERS if name != "franz-go" or programs.has_go()]
    trials: dict[str, Trial] = {f"{name}, tuned": partial(_tuned, name, records, PLAIN) for name in readers}
    trials |= {
        f"{name}, defaults": partial(_read, _READERS[name], records, PLAIN, None)
        for name in _AT_DEFAULTS
        if name in readers
    }
    trials |= {
        f"{name}, tuned{load.title}": partial(_tuned, name, records, load)
        for load in (LZ4, LARGE)
        for name in _OTHER_LOADS
    }
    return Study("consume", _remarks(records), _FIGURES, trials, _contests())


_FIGURES = (
    Figure(RATE, "a second", more_is_better=True),
    Figure(CPU, "microseconds a record", form=".3f"),
    Figure(FIRST, "seconds after the consumer was created", form=".2f"),
    Figure(SIZE, "the best of those tried"),
    Figure(BYTES, "the best of those tried"),
)


def _remarks(records: int) -> list[str]:
    return [
        f"Kafka {RELEASE}; {records:,} records of 100 bytes in {PARTITIONS} partitions "
        f"({LARGE.count(records):,} of 1 KiB), after {WARM_UPS * PLAIN.count(records):,} records of "
        "warm-up by all clients in turn",
        f"tuned: {LOCKS:,} locks per partition, {TUNED:,} records at once; for confluent-kafka, the best "
        f"of {len(_CONFLUENT_TRIES)} pairs of {SIZE} and {BYTES}, each tried once with these records",
        "kshare batches: uses `batch.values()`; records of batches: `for record in batch`; records: one by one",
        "Java: Apache's ShareConsumerPerformance; its CPU is that of the whole process",
        *([] if programs.has_go() else ["franz-go is left out: there is no Go on this machine"]),
    ]


def _contests() -> list[Contest]:
    pairs = [
        ("kshare batches, tuned", f"{_CONFLUENT}, tuned"),
        ("kshare batches, tuned", f"{_NULL}, tuned"),
        ("kshare records of batches, tuned", f"{_CONFLUENT}, tuned"),
        ("kshare records, tuned", f"{_CONFLUENT}, tuned"),
        ("kshare.sync records, tuned", f"{_CONFLUENT}, tuned"),
        *((f"kshare.sync {mode}, tuned", f"kshare {mode}, tuned") for mode in _SYNC_WAYS),
        ("kshare accepting each, tuned", f"{_CONFLUENT_EACH}, tuned"),
        ("kshare batches, defaults", f"{_CONFLUENT}, defaults"),
        ("kshare batches, defaults", "Java, defaults"),
        ("kshare batches, defaults", f"{_NULL}, tuned"),
    ]
    for load in (LZ4, LARGE):
        pairs += [
            (f"kshare batches, tuned{load.title}", f"{peer}, tuned{load.title}")
            for peer in (_CONFLUENT, _NULL)
        ]
    return [
        *(Contest(RATE, first, second) for first, second in pairs),
        Contest(CPU, "kshare batches, tuned", f"{_CONFLUENT}, tuned"),
        *(Contest(CPU, f"kshare.sync {mode}, tuned", f"kshare {mode}, tuned") for mode in _SYNC_WAYS),
        Contest(FIRST, "kshare batches, defaults", f"{_CONFLUENT}, defaults"),
    ]


def _tuned(name: str, records: int, load: Load) -> Mapping[str, float]:
    if name not in (_CONFLUENT, _CONFLUENT_EACH):
        return _read(_READERS[name], records, load, TUNED)
    size, most_bytes = _best(name, records, load)
    found = _read(_READERS[name], records, load, size, fetch_bytes=most_bytes)
    return {**found, SIZE: size, BYTES: most_bytes}


@functools.cache
def _best(name: str, records: int, load: Load) -> tuple[int, int]:
    """The fetch size and bytes with which the client reads most records per second, trying each once."""

    def rate(tried: tuple[int, int]) -> float:
        progress(f"consume: {name}{load.title}, {SIZE} {tried[0]}, {BYTES} {tried[1]}")
        return _read(_READERS[name], records, load, tried[0], fetch_bytes=tried[1])[RATE]

    return max(_CONFLUENT_TRIES, key=rate)


def _read(
    reader: Reader, records: int, load: Load, max_records: int | None, **settings: int
) -> Mapping[str, float]:
    """Read the topic once. Tuned if `max_records` is given."""
    _warm_up(records)
    return _read_now(reader, records, load, max_records, **settings)


def _read_now(
    reader: Reader, records: int, load: Load, max_records: int | None, **settings: int
) -> Mapping[str, float]:
    count = load.count(records)
    topic = filled_topic(PARTITIONS, count, load.bytes, load.codec)
    where = at(topic, {"share.partition.max.record.locks": str(LOCKS)} if max_records else None)
    return reader.read(count, _DEADLINE_S, **where, max_records=max_records, **settings)


@functools.cache
def _warm_up(records: int) -> None:
    for number, name in zip(range(WARM_UPS), itertools.cycle(_WARMERS), strict=False):
        progress(f"consume: warming up the broker, {number} of {WARM_UPS}")
        _read_now(_READERS[name], records, PLAIN, TUNED)
