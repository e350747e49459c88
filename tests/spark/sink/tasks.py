"""What tests of tasks need: connections, column batches, and what is in a topic."""

from __future__ import annotations

from collections.abc import Iterable

import anyio
import pyarrow as pa

from kshare.spark.executor.connections import Connections, connections
from kshare.spark.sink.write_options import WriteOptions
from kshare.testing import Broker
from tests.helpers.committed import committed


def options(broker: Broker, *, is_streaming: bool = True, **more: str) -> WriteOptions:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "topic": "orders"}
    kafkas = {name.replace("_", "."): value for name, value in more.items()}
    return WriteOptions.parse({**given, **kafkas}, is_streaming=is_streaming)


def connected(given: WriteOptions) -> Connections:
    return connections(given.net)


def column_batch(values: Iterable[bytes], **columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(list(values), pa.binary()), **columns})


def numbered(first: int, end: int) -> pa.RecordBatch:
    return column_batch(b"%d" % number for number in range(first, end))


def found(broker: Broker, topic: str = "orders") -> list[int]:
    """The numbers in a topic, for consumers with `read_committed`."""
    return sorted(int(value or b"") for value in anyio.run(committed, broker.bootstrap, topic))
