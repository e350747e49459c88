"""The columns, as Spark names and types them: those of its Kafka source, and `deliveryCount`.

Decides their order, once for both sides: `kshare.spark.arrow` fills them in the same.
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
    """All nullable, as Spark 4.3 wants what Python sources read."""
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
