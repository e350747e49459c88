"""The columns, with Spark's names and types: those of its Kafka source, and `deliveryCount`.

`kshare.spark.executor.arrow` creates them in the same order.
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

_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


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
