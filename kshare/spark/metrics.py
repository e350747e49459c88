"""Publishes the progress of queries as gauges of Spark's own metrics system, and so in Prometheus, JMX or Graphite.

Spark shows what a Python source reports only in a query's progress. `publish_metrics` adds a listener to the user's
session that copies these numbers into the driver's registry, as
`<application>.driver.AccumulatorSource.kshare.<query>.<name>`.

Decides the gauges' names. Never talks to Kafka.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from kshare.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_OURS = "skippedDuplicates"
"""Only our source reports this."""
_OF_QUERIES = ("batchId", "numInputRows", "inputRowsPerSecond", "processedRowsPerSecond")


def publish_metrics(spark: SparkSession) -> None:
    """Publish the progress of all kshare queries of this session, from now on, in Spark's metrics system.

    Call it once, before you start queries. Not with Spark Connect, whose clients can't access the metrics system.
    """
    if not hasattr(spark, "_jsparkSession"):
        raise ConfigError(
            "publish_metrics needs a session in the driver's process: a client of Spark Connect can't access Spark's "
            "metrics system. Read query.lastProgress instead"
        )
    spark.streams.addListener(_Publisher(_Gauges(spark)))


def readings(progress: Mapping[str, Any]) -> dict[str, float]:
    """The numbers in a query's progress, by name; empty if it has no source of ours."""
    reports = [source.get("latestOffset") for source in progress.get("sources", ())]
    ours = [report for report in reports if isinstance(report, Mapping) and _OURS in report]
    if not ours:
        return {}
    found = dict(_numbers({name: progress.get(name) for name in _OF_QUERIES}))
    found |= {f"{name}Ms": number for name, number in _numbers(progress.get("durationMs", {}))}
    for at, report in enumerate(ours):
        prefix = f"source{at}." if len(ours) > 1 else ""
        found |= {prefix + name: number for name, number in _numbers(report)}
    return found


def _numbers(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name, value


class _Gauges:
    """Gauges in the driver's registry. Spark's public way to add some is to register accumulators as a source.

    (Its metrics system itself can't be reached: py4j fails to inspect SparkEnv, for lack of classes in Spark's jars.)
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext._jsc.sc()
        self._jvm: Any = spark.sparkContext._jvm
        self._values: dict[str, dict[str, Any]] = {}

    def set(self, query: str, numbers: Mapping[str, float]) -> None:
        values = self._values.setdefault(query, {})
        added: dict[str, Any] = {}
        for name, number in numbers.items():
            if name not in values:
                values[name] = added[f"kshare.{query}.{name}"] = (
                    self._jvm.org.apache.spark.util.DoubleAccumulator()
                )
            values[name].setValue(float(number))
        if added:
            gauges = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(added)
            module = getattr(self._jvm.org.apache.spark.metrics.source, "DoubleAccumulatorSource$")
            getattr(module, "MODULE$").register(self._context, gauges)

    def clear(self, query: str) -> None:
        """The query has ended. Spark can't remove its gauges, but they can say that they have no value."""
        for value in self._values.get(query, {}).values():
            value.setValue(math.nan)


class _Publisher(StreamingQueryListener):
    def __init__(self, gauges: _Gauges) -> None:
        self._gauges = gauges
        self._names: dict[str, str] = {}
        """The names of queries in the metrics system, by run id."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Does nothing: it isn't known yet whether a source of the query is ours."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = json.loads(event.progress.json)
        numbers = readings(progress)
        if numbers:
            name = self._names[str(event.progress.runId)] = progress.get("name") or progress["id"]
            self._gauges.set(name, numbers)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Does nothing: the event has no numbers."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        name = self._names.pop(str(event.runId), None)
        if name is not None and name not in self._names.values():
            self._gauges.clear(name)
