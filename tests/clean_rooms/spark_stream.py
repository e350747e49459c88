"""A stream that Spark finds by the name of its format. Needs Java."""

import os
import sys
import tempfile

os.environ["PYSPARK_PYTHON"] = sys.executable  # as an activated environment has it on its PATH

from pyspark.sql import DataFrame, SparkSession

from kshare.testing import Broker

seen: list[bytes] = []


def keep(batch: DataFrame, _batch_id: int) -> None:
    seen.extend(row.value for row in batch.select("value").collect())


with Broker(topics={"orders": 1}) as broker, tempfile.TemporaryDirectory() as folder:
    broker.set_group_config("packing", {"share.auto.offset.reset": "earliest"})
    broker.produce("orders", [b"tea"])
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    rows = (
        spark.readStream.format("kshare")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("group", "packing")
        .option("subscribe", "orders")
        .load()
    )
    query = rows.writeStream.foreachBatch(keep).option("checkpointLocation", folder)
    query.trigger(availableNow=True).start().awaitTermination(120)
    assert seen == [b"tea"], seen
    spark.stop()
