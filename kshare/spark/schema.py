"""The columns, with Spark's names and types: those of its Kafka source, and `deliveryCount`.

Decides which columns a user may leave out with `.schema(...)`, and in which order they come. Only these are built, by
`kshare.spark.executor.arrow`.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kshare.errors import ConfigError
from kshare.wording import suggestion

_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_ADDED_BY = {"headers": "includeHeaders", "deliveryCount": "deliveryCount"}
"""Columns that an option adds."""


def spark_schema(include_headers: bool = False, delivery_count: bool = False) -> StructType:
    """The schema. All columns are nullable, as Spark 4.3 requires of Python sources."""
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if include_headers:
        fields.append(StructField("headers", _HEADERS))
    if delivery_count:
        fields.append(StructField("deliveryCount", IntegerType()))
    return StructType(fields)


def selected_columns(wanted: StructType, whole: StructType) -> tuple[str, ...]:
    """The columns that the user's schema selects of `whole`, in its order.

    Raises ConfigError for an unknown column, or one that has another type: Spark would read its bytes as that type.
    """
    names = tuple(wanted.fieldNames())
    if not names:
        raise ConfigError(
            f'.schema(...) names no column: write for example .schema("value BINARY"); {_columns(whole)}'
        )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ConfigError(f".schema(...) names the column {twice[0]} twice: leave one of them out")
    for field in wanted:
        _check(field, whole)
    return names


def _check(field: StructField, whole: StructType) -> None:
    name = field.name
    if name not in whole.fieldNames():
        if name in _ADDED_BY:
            advice = f'write option("{_ADDED_BY[name]}", "true")'
        else:
            advice = suggestion(name.lower(), whole.fieldNames()) or _columns(whole)
        raise ConfigError(
            f".schema(...) names the column {name}, which this DataFrame doesn't have: {advice}"
        )
    expected = whole[name].dataType
    if field.dataType != expected:
        raise ConfigError(
            f".schema(...) gives the column {name} the type {_ddl(field.dataType.simpleString())}, but it is "
            f"{_ddl(expected.simpleString())}: write that type, and cast the column in your query"
        )
    if not field.nullable:
        raise ConfigError(
            f".schema(...) says that the column {name} is NOT NULL, but Spark requires nullable columns of Python "
            "sources: leave NOT NULL out"
        )


def _columns(whole: StructType) -> str:
    described = ", ".join(f"{field.name} {_ddl(field.dataType.simpleString())}" for field in whole)
    return f"the columns are {described}"


def _ddl(kind: str) -> str:
    """The type as users write it in a schema. Field names keep their case, as they are case-sensitive here."""
    return kind if "<" in kind else kind.upper()
