"""The columns of the sink: which are allowed, and how a column batch becomes records.

They are those of Spark's Kafka sink, and `timestamp`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from kshare.errors import ConfigError
from kshare.producer.records import Headers

_MILLISECONDS = pa.timestamp("ms", tz="UTC")


Row = tuple[str | None, int | None, bytes | None, bytes | None, Headers, int | None]
"""Topic, partition, key, value, headers and timestamp (milliseconds since 1970). A plain tuple, which is faster."""


def _is_text_or_bytes(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return [(field.name, type(field.dataType)) for field in fields] == [
        ("key", StringType),
        ("value", BinaryType),
    ]


_COLUMNS: dict[str, tuple[str, Callable[[DataType], bool]]] = {
    "key": ("string or binary", _is_text_or_bytes),
    "value": ("string or binary", _is_text_or_bytes),
    "headers": ("array<struct<key:string,value:binary>>", _is_headers),
    "topic": ("string", lambda kind: isinstance(kind, StringType)),
    "partition": ("int", lambda kind: isinstance(kind, IntegerType)),
    "timestamp": ("timestamp", lambda kind: isinstance(kind, TimestampType)),
}


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise ConfigError if rows with these columns can't be written. `topic` is the option."""
    for field in schema.fields:
        if field.name not in _COLUMNS:
            raise ConfigError(
                f"column {field.name} can't be written: the columns of the sink are {', '.join(_COLUMNS)}. Select "
                'those, or put others into the value: selectExpr("to_json(struct(*)) AS value")'
            )
        wanted, is_allowed = _COLUMNS[field.name]
        if not is_allowed(field.dataType):
            raise ConfigError(
                f"column {field.name} must be {wanted}, not {field.dataType.simpleString()}: cast it"
            )
    names = schema.fieldNames()
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"there are {names.count(name)} columns {name}: select one of them")
    if "value" not in names:
        raise ConfigError('the column value is missing: write selectExpr("... AS value")')
    if topic is None and "topic" not in names:
        raise ConfigError('there is neither an option nor a column topic: write option("topic", "orders")')


def rows_of(batch: pa.RecordBatch, topic: str | None) -> Iterator[Row]:
    """The rows of a column batch. `topic` is the option, which overrides the column."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return zip(
        repeat(topic) if topic is not None else _values(columns, "topic"),
        _values(columns, "partition"),
        _bytes(columns, "key"),
        _bytes(columns, "value"),
        _headers(columns, batch.num_rows),
        _timestamps(columns),
        strict=False,  # some columns are endless
    )


def _values(columns: Mapping[str, pa.Array], name: str) -> Iterator[Any]:
    return iter(columns[name].to_pylist()) if name in columns else repeat(None)


def _bytes(columns: Mapping[str, pa.Array], name: str) -> Iterator[Any]:
    if name not in columns:
        return repeat(None)
    column = columns[name]
    if pa.types.is_string(column.type):
        column = column.view(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.view(pa.large_binary())
    return iter(column.to_pylist())


def _timestamps(columns: Mapping[str, pa.Array]) -> Iterator[Any]:
    if "timestamp" not in columns:
        return repeat(None)
    return iter(columns["timestamp"].cast(_MILLISECONDS, safe=False).view(pa.int64()).to_pylist())


def _headers(columns: Mapping[str, pa.Array], count: int) -> Iterator[Headers]:
    if "headers" not in columns:
        return repeat(())
    column = columns["headers"]
    names, contents = (part.to_pylist() for part in column.flatten().flatten())
    pairs: Sequence[tuple[str, bytes | None]] = list(zip(names, contents, strict=True))
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_pylist()
    return _slices(pairs, lengths)


def _slices(pairs: Sequence[tuple[str, bytes | None]], lengths: Sequence[int]) -> Iterator[Headers]:
    at = 0
    for length in lengths:
        yield tuple(pairs[at : at + length])
        at += length
