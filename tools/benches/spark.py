"""Compares `format("kshare")` with other sources of Spark: its Kafka source, a rate source, and prepared rows.

View: a batch DataFrame reads a topic into a sink that drops it. Spark's Kafka source reads the same records, with the
PySpark that it was built for. Both do this several times before they are measured, because a JVM is slow at first.
Stream: consecutive micro-batches, each with as many rows as the group's locks allow. The upper bound is that many rows
in the shortest possible micro-batch, which is measured, too: a Python source that returns prepared rows. A rate source
with as many rows shows what a micro-batch costs without Python.
Driver: only the query's member, acquiring and accepting; CPU time of its whole process.
"""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Mapping
from functools import partial

from tools.benches import programs
from tools.benches.bench_options import Wishes
from tools.benches.broker import RELEASE, broker, fresh_group
from tools.benches.child import children
from tools.benches.filling import filled_topic
from tools.benches.measure import progress
from tools.benches.spark_processes import Spark, kafkas, ours
from tools.benches.study import Contest, Figure, Study, Trial
from tools.kafka.jars import SPARK_SOURCE_RELEASE

RECORDS = 2_000_000
PARTITIONS = 4
SIZE = 100
LOCKS = (2_000, 10_000)
"""Kafka's default, and the maximum that this broker allows."""
ROUNDS = 5
_WARM_UPS = 8
_STREAMED = 30
"""The approximate number of micro-batches to measure."""
_ROWS, _LATENCY, _CPU, _DRIVER = "rows", "micro-batch", "CPU", "driver's CPU"
_DEADLINE_S = 300.0


def study(wishes: Wishes) -> Study:
    records = wishes.records or RECORDS
    trials: dict[str, Trial] = {
        "kshare view": partial(_kshare_view, records),
        "Kafka's source": partial(_kafka_view, records),
    }
    contests = [Contest(figure, "kshare view", "Kafka's source") for figure in (_ROWS, _CPU)]
    for locks in LOCKS:
        rows = PARTITIONS * locks
        bound = f"prepared rows, {rows:,} each"
        trials[bound] = partial(
            _stream, "prepared", {"rows": rows, "partitions": PARTITIONS, "bytes": SIZE}, rows, records
        )
        trials[f"rate source, {rows:,} each"] = partial(
            _stream, "rate-micro-batch", {"rowsPerBatch": rows, "numPartitions": PARTITIONS}, rows, records
        )
        for settle in ("sink", "checkpoint"):
            name = f"kshare stream, {locks:,} locks, {settle}"
            trials[name] = partial(_kshare_stream, records, locks, settle)
            contests.append(Contest(_ROWS, name, bound))
    trials["kshare driver"] = partial(_driver, records)
    return Study("spark", _remarks(records), _FIGURES, trials, contests)


_FIGURES = (
    Figure(_ROWS, "a second", more_is_better=True),
    Figure(_LATENCY, "milliseconds, median"),
    Figure(_CPU, "microseconds a row, JVM and Python together", form=".3f"),
    Figure(_DRIVER, "microseconds an acquired record", form=".3f"),
)


def _remarks(records: int) -> list[str]:
    return [
        f"Kafka {RELEASE}; {records:,} records of {SIZE} bytes in {PARTITIONS} partitions; local[2]",
        f"Kafka's source is that of Spark {SPARK_SOURCE_RELEASE}, the newest available, with its own PySpark",
        "prepared rows: a Python source that hands over rows that are ready; the ratio of a stream to it is the share "
        "of the limit, partitions x locks per shortest micro-batch, that the stream reaches",
    ]


@functools.cache
def _topic(records: int) -> str:
    return filled_topic(PARTITIONS, records, SIZE)


def _kshare_view(records: int) -> Mapping[str, float]:
    return _view(ours(), "kshare", records, group=fresh_group(), subscribe=_topic(records))


def _kafka_view(records: int) -> Mapping[str, float]:
    return _view(kafkas(), "kafka", records, startingOffsets="earliest", subscribe=_topic(records))


def _view(spark: Spark, source: str, records: int, **options: str) -> Mapping[str, float]:
    source_options = {"kafka.bootstrap.servers": broker().bootstrap, **options}
    if source not in _warm:
        for number in range(_WARM_UPS):
            progress(f"spark: {source}, warming up {number + 1}/{_WARM_UPS}")
            answer = spark.run("view", source, source_options, counts=not number)
            if not number and answer["rows"] != records:
                raise ValueError(f"{source} gave {answer['rows']:,} of {records:,} rows")
        _warm.add(source)
    result = spark.run("view", source, source_options)
    return {_ROWS: records / result["seconds"], _CPU: 1e6 * result["cpu"] / records}


_warm: set[str] = set()


def _kshare_stream(records: int, locks: int, settle: str) -> Mapping[str, float]:
    source_options = {
        "kafka.bootstrap.servers": broker().bootstrap,
        "group": fresh_group({"share.partition.max.record.locks": str(locks)}),
        "subscribe": _topic(records),
        "settle": settle,
    }
    return _stream("kshare", source_options, PARTITIONS * locks, records)


def _stream(source: str, options: Mapping[str, object], rows: int, records: int) -> Mapping[str, float]:
    with tempfile.TemporaryDirectory() as checkpoint:
        # Fewer micro-batches if they are large, because the topic has to be large enough.
        count = min(_STREAMED * rows, records // 2)
        result = ours().run("stream", source, options, rows=count, checkpoint=checkpoint)
    return {_ROWS: result["rows"], _LATENCY: result["median"]}


def _driver(records: int) -> Mapping[str, float]:
    command = programs.python(
        "spark_driver",
        bootstrap=broker().bootstrap,
        group=fresh_group({"share.partition.max.record.locks": str(LOCKS[-1])}),
        topic=_topic(records),
        records=records,
    )
    with children([command]) as (running, _):
        result = json.loads(running[0].hear(_DEADLINE_S))
    return {_ROWS: result["records"] / result["seconds"], _DRIVER: 1e6 * result["cpu"] / result["records"]}
