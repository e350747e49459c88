"""The data source `format("kshare")`: creates readers and writers, and keeps errors readable.

    spark.readStream.format("kshare").option("kafka.bootstrap.servers", "localhost:9092")
        .option("group", "shipping").option("subscribe", "orders").load()

Spark creates these objects in several processes, and pickles some of them. Nothing happens before a stream's runner is
asked for its first offset. Decides nothing about records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from kshare.errors import ConfigError
from kshare.spark.cores import spark_cores
from kshare.spark.options import ReadOptions, lease_token
from kshare.spark.plain_errors import with_plain_errors
from kshare.spark.ranges import Token
from kshare.spark.schema import selected_columns, spark_schema
from kshare.spark.splitting import RangePartition, split

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    from kshare.spark.driver.runner import Runner
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # before PySpark 4.2

        class SupportsTriggerAvailableNow:
            """A placeholder: these versions don't support the trigger."""


class KshareDataSource(DataSource):
    """The data source. Spark finds it through the module `pyspark_kshare`."""

    @classmethod
    def name(cls) -> str:
        return "kshare"

    @with_plain_errors
    def schema(self) -> StructType:
        given = dict(self.options)
        if (token := lease_token(given)) is not None:
            from kshare.spark.leases.lease_token import LeaseToken

            return _schema(LeaseToken.decode(token).options(given))
        return _schema(ReadOptions.parse(given, is_streaming=True))

    @with_plain_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        given = dict(self.options)
        if (token := lease_token(given)) is not None:
            from kshare.spark.leases.lease_token import LeaseReader, LeaseToken

            lease = LeaseToken.decode(token)
            return LeaseReader(lease, _with_columns(lease.options(given), schema))
        from kshare.spark.backlog import BacklogReader

        options = ReadOptions.parse(given, is_streaming=False)
        return BacklogReader(_with_columns(options, schema))

    @with_plain_errors
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        given = dict(self.options)
        if lease_token(given) is not None:
            raise ConfigError("use spark.read to read a lease: a stream acquires records itself")
        options = ReadOptions.parse(given, is_streaming=True)
        return ShareStreamReader(_with_columns(options, schema))

    @with_plain_errors
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from kshare.spark.sink.writers import batch_writer

        return batch_writer(dict(self.options), schema, overwrite)

    @with_plain_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from kshare.spark.sink.writers import stream_writer

        return stream_writer(dict(self.options), schema)


class ShareStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one query. The runner starts with Spark's first call in the query's own process."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._runner: Runner | None = None
        self._member: str | None = None
        self._is_trigger_known = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        from kshare.engine.member import new_member_id

        self._member = self._member or new_member_id()
        return Token(member=self._member, group=self._options.group).to_json()

    @with_plain_errors
    def latestOffset(  # noqa: N802 - with and without arguments, by Spark's release
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        if start is None:  # before PySpark 4.2
            self._refuse_single_batches()
            runner = self._running()
            begin = runner.latest_known_token() or self._token(self.initialOffset())
        else:
            begin = self._token(start)
            runner = self._running()
        token = runner.latest(begin, getattr(limit, "max_rows", None), is_certain=start is not None)
        return (token or begin).to_json()

    @with_plain_errors
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, until = self._token(start), self._token(end)
        ranges = self._running().read(begin, until)
        return [RangePartition(part) for part in split(ranges, self._options.task_limits, spark_cores())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in an executor, perhaps several times. Neither acquires nor acknowledges."""
        from kshare.spark.executor.reader import read_arrow
        from kshare.spark.executor.spare_collections import spare_collections

        assert isinstance(partition, RangePartition)
        spare_collections()
        return iter(read_arrow(self._options, partition.ranges))

    @with_plain_errors
    def commit(self, end: dict[str, Any]) -> None:
        token = self._token(end)
        self._running().commit(token)

    @with_plain_errors
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._running().prepare_to_drain()

    @with_plain_errors
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._runner is None else dict(self._runner.progress())

    def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.stop()

    def __getstate__(self) -> dict[str, Any]:
        """What executors need: no thread, no connection."""
        return {**vars(self), "_runner": None, "_member": None}

    def _token(self, offset: dict[str, Any]) -> Token:
        """Read an offset from Spark's log. Raises TokenError for an invalid one, before anything is acquired."""
        token = Token.from_json(offset)
        token.check_group(self._options.group)
        return token

    def _refuse_single_batches(self) -> None:
        if not self._is_trigger_known:
            from kshare.spark.driver.waiting_queries import refuse_single_batches

            refuse_single_batches()
            self._is_trigger_known = True

    def _running(self) -> Runner:
        if self._runner is None:
            from kshare.spark.driver.runner import Runner

            self._runner = Runner(self._options)
        return self._runner


def _schema(options: ReadOptions) -> StructType:
    return spark_schema(options.include_headers, options.delivery_count)


def _with_columns(options: ReadOptions, schema: StructType) -> ReadOptions:
    """The options to read only the columns of this schema, which is the user's, or our own if there is none."""
    return replace(options, columns=selected_columns(schema, _schema(options)))
