"""Compares streams of `format("kshare")` with those of Spark's Kafka source: same sink, same rows in a micro-batch.

Both run in one Spark, of the release for which the Kafka source was built, and a round runs one right after the other.
Brokers have their default settings: a group locks 2,000 records of a partition, and 4,000 if it asks for it. The Kafka
source gets the median number of rows that kshare's micro-batches had in the same round. Without locks: micro-batches of
a million rows, for which kshare needs `settle=journal`.
Floor: a source in Python that does nothing but return as many rows, which are always the same.
View: a batch DataFrame reads a topic. It is read several times before it is measured, because a JVM is slow at first.
Driver: only the query's member, acquiring and accepting, with small and with large records; CPU time of its process.
Bytes: a program that only receives bytes and drops them, which no member can do with less CPU.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from functools import partial
from typing import get_args

from kshare.spark.options import Settle
from tools.benches import programs
from tools.benches.broker import RELEASE, at, broker, filled_topic, fresh_group
from tools.benches.child import children
from tools.benches.spark_processes import spark
from tools.benches.study import Contest, Figure, Study, Trial, Wishes, progress
from tools.kafka.jars import SPARK_SOURCE_RELEASE

RECORDS = 4_000_000
PARTITIONS = (6, 48)
SIZE, LARGE = 100, 10_000
LOCKS = (2_000, 4_000)
"""Kafka's default, and the maximum that brokers allow by default."""
FREE_ROWS = 1_000_000
"""The rows of a micro-batch that isn't bounded by locks."""
ROUNDS = 3
_WARM_UPS = 6
_STREAMED = 24
"""The approximate number of micro-batches to measure, if the topic is large enough for it."""
_LARGE_SHARE = 50
"""One large record stands for this many small ones, so that its topic isn't too large."""
_ROWS, _LATENCY, _BATCH, _CPU = "rows", "micro-batch", "rows a micro-batch", "CPU"
_DRIVER, _DRIVER_BYTES = "driver's CPU", "driver's CPU by bytes"
_DROPPED_MB = 2_000
_DEADLINE_S = 300.0
_HAS_JOURNAL = "journal" in get_args(Settle)


def study(wishes: Wishes) -> Study:
    records = wishes.records or RECORDS
    trials: dict[str, Trial] = {
        "kshare view": partial(_kshare_view, records),
        "Kafka's source": partial(_kafka_view, records),
    }
    contests = [Contest(figure, "kshare view", "Kafka's source") for figure in (_ROWS, _CPU)]
    for partitions in PARTITIONS:
        for locks in LOCKS:
            shared = f"{partitions} partitions, {locks:,} locks"
            ours, theirs = f"kshare stream, {shared}", f"Kafka's stream, as {shared}"
            trials[ours] = partial(_kshare_stream, records, partitions, locks, "sink")
            trials[theirs] = partial(_kafka_stream, records, partitions, (partitions, locks))
            contests.append(Contest(_ROWS, ours, theirs))
            if partitions == PARTITIONS[0]:
                floor = f"floor, as {shared}"
                trials[floor] = partial(_floor, records, (partitions, locks))
                contests.append(Contest(_ROWS, floor, theirs))
    most = PARTITIONS[-1]
    free = f"Kafka's stream, {most} partitions, without locks"
    trials[free] = partial(_kafka_stream, records, most, None)
    settles = ["sink"]
    if _HAS_JOURNAL:
        journal = f"kshare stream, journal, {most} partitions"
        trials[journal] = partial(_kshare_stream, records, most, LOCKS[0], "journal")
        contests.append(Contest(_ROWS, journal, free))
        settles.append("journal")
    for settle in settles:
        trials[f"kshare driver, {settle}"] = partial(_driver, records, SIZE, settle)
    trials[f"kshare driver, {LARGE:,} bytes"] = partial(_driver, records // _LARGE_SHARE, LARGE, "sink")
    for way, done in (("copied", "copied into one buffer"), ("truncated", "dropped by the kernel")):
        trials[f"bytes, {done}"] = partial(_dropped, way)
    return Study("spark", _remarks(records), _FIGURES, trials, contests)


_FIGURES = (
    Figure(_ROWS, "a second", more_is_better=True),
    Figure(_BATCH, "median", more_is_better=True),
    Figure(_LATENCY, "milliseconds, median"),
    Figure(_CPU, "microseconds a row, JVM and Python together", form=".3f"),
    Figure(_DRIVER, "microseconds an acquired record", form=".3f"),
    Figure(_DRIVER_BYTES, "milliseconds a MB", form=".3f"),
)


def _remarks(records: int) -> list[str]:
    return [
        f"Kafka {RELEASE} with its default limits on locks; {records:,} records of {SIZE} bytes; local[2]",
        f"all with Spark {SPARK_SOURCE_RELEASE}, for which the newest available Kafka source was built",
        "streams write to the sink noop; Kafka's have maxOffsetsPerTrigger = the median rows of kshare's micro-batches",
    ]


def _topic(records: int, partitions: int = PARTITIONS[0], size: int = SIZE) -> str:
    return filled_topic(partitions, records, size)


# --- views


def _kshare_view(records: int) -> Mapping[str, float]:
    return _view("kshare", records, group=fresh_group(), subscribe=_topic(records))


def _kafka_view(records: int) -> Mapping[str, float]:
    return _view("kafka", records, startingOffsets="earliest", subscribe=_topic(records))


def _view(source: str, records: int, **options: str) -> Mapping[str, float]:
    source_options = {"kafka.bootstrap.servers": broker().bootstrap, **options}
    if source not in _warm:
        for number in range(_WARM_UPS):
            progress(f"spark: {source}, warming up {number + 1}/{_WARM_UPS}")
            response = spark().run("view", source, source_options, counts=not number)
            if not number and response["rows"] != records:
                raise ValueError(f"{source} gave {response['rows']:,} of {records:,} rows")
        _warm.add(source)
    result = spark().run("view", source, source_options)
    return {_ROWS: records / result["seconds"], _CPU: 1e6 * result["cpu"] / records}


_warm: set[str] = set()


# --- streams


def _kshare_stream(records: int, partitions: int, locks: int, settle: str) -> Mapping[str, float]:
    options = {
        "group": fresh_group({"share.partition.max.record.locks": str(locks)}),
        "subscribe": _topic(records, partitions),
        "settle": settle,
    }
    expected = _free_rows(records) if settle == "journal" else partitions * locks
    result = _stream("kshare", options, expected, records)
    if settle == "sink":
        _batches[partitions, locks] = int(result[_BATCH])
    return result


_batches: dict[tuple[int, int], int] = {}
"""The median rows of kshare's micro-batches in this round, by partitions and locks."""


def _kafka_stream(records: int, partitions: int, alike: tuple[int, int] | None) -> Mapping[str, float]:
    """`alike`: partitions and locks of the kshare stream whose micro-batches have as many rows."""
    rows = _free_rows(records) if alike is None else _batches.get(alike, alike[0] * alike[1])
    options = {
        "subscribe": _topic(records, partitions),
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": rows,
    }
    return _stream("kafka", options, rows, records)


def _floor(records: int, alike: tuple[int, int]) -> Mapping[str, float]:
    rows = _batches.get(alike, alike[0] * alike[1])
    return _stream("constant", {"rows": rows}, rows, records)


def _free_rows(records: int) -> int:
    """The topic has enough for a micro-batch that isn't counted, two that are, and a last one."""
    return min(FREE_ROWS, records // 4)


def _stream(source: str, options: Mapping[str, object], rows: int, records: int) -> Mapping[str, float]:
    given = {"kafka.bootstrap.servers": broker().bootstrap, **options}
    # The topic has to be large enough for those that aren't counted, the measured ones, and a last one.
    warm_up = _WARM_UPS if rows < _free_rows(records) else 1
    count = max(1, min(_STREAMED * rows, records - (warm_up + 2) * rows))
    with tempfile.TemporaryDirectory() as checkpoint:
        result = spark().run("stream", source, given, rows=count, warm_up=warm_up, checkpoint=checkpoint)
    return {_ROWS: result["rows"], _LATENCY: result["median"], _BATCH: result["median rows"]}


# --- the driver


def _driver(records: int, size: int, settle: str) -> Mapping[str, float]:
    where = at(_topic(records, size=size), {"share.partition.max.record.locks": str(LOCKS[-1])})
    result = _told(programs.python("spark_driver.acquire", records=records, settle=settle, **where))
    megabytes = result["records"] * size / 1e6
    return {
        _ROWS: result["records"] / result["seconds"],
        _DRIVER: 1e6 * result["cpu"] / result["records"],
        _DRIVER_BYTES: 1e3 * result["cpu"] / megabytes,
    }


def _dropped(way: str) -> Mapping[str, float]:
    result = _told(programs.python("dropped_bytes.drop", way=way, megabytes=_DROPPED_MB))
    return {_DRIVER_BYTES: 1e3 * result["cpu"] / _DROPPED_MB}


def _told(command: programs.Command) -> Mapping[str, float]:
    with children([command]) as ((child,), _):
        told: Mapping[str, float] = json.loads(child.hear(_DEADLINE_S))
        return told
