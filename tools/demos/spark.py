"""`python -m tools.demos.spark`: runs a Spark query on a share group, with poison records in the topic and a crash.

An embedded broker that emulates Kafka 4.4 has a thousand orders, two of which can't be shipped. The query rejects those
and ships the rest. Its runner is killed in the middle of the second micro-batch. Then the query is restarted from its
checkpoint, and the shipped orders are counted.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kshare.spark import settle
from kshare.spark.driver.row_decisions import listening
from kshare.testing import Broker
from tools.spark import session

TOPIC, GROUP, DEAD_LETTERS = "orders", "shipping", "dlq.orders"
PARTITIONS, ORDERS, A_BATCH = 4, 1000, 300
POISON = {"order 123", "order 777"}


class Shop:
    """The sink: idempotent by batch id, as a table would be."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}
        self.interrupt: Callable[[int], None] = lambda batch: None

    def ship(self, frame: DataFrame, batch: int) -> None:
        poison = frame.where(frame.value.cast("string").isin(sorted(POISON)))
        rejected = settle(poison, "reject")
        orders = [bytes(row.value).decode() for row in frame.select("value").collect()]
        self.batches.setdefault(batch, [order for order in orders if order not in POISON])
        say(f"  micro-batch {batch}: {len(orders)} orders, {rejected} of them rejected")
        self.interrupt(batch)


def main() -> None:
    settings = {"errors.deadletterqueue.auto.create.topics.enable": "true"}
    with (
        Broker(topics={TOPIC: PARTITIONS}, release="4.4", settings=settings) as broker,
        tempfile.TemporaryDirectory() as folder,
    ):
        fill(broker)
        spark = session(name="kshare demo")
        shop = Shop()

        def crash(batch: int) -> None:
            if batch == 1:
                shop.interrupt = lambda _: None
                say("  … and the query's runner is killed before any of it is acknowledged")
                for runner in listening():
                    os.kill(runner, signal.SIGKILL)

        shop.interrupt = crash
        say(f'readStream.format("kshare"), group {GROUP}: {ORDERS} orders are in the topic')
        try:
            run(spark, broker, shop, Path(folder))
        except StreamingQueryException:
            say("the query has failed; restarting it from its checkpoint")
            run(spark, broker, shop, Path(folder))
        tell(broker, shop)
        spark.stop()


def fill(broker: Broker) -> None:
    broker.create_topic(DEAD_LETTERS, 1, {"errors.deadletterqueue.group.enable": "true"})
    broker.set_group_config(
        GROUP,
        {
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": DEAD_LETTERS,
            "errors.deadletterqueue.copy.record.enable": "true",
        },
    )
    for number in range(PARTITIONS):
        broker.produce(
            TOPIC,
            [f"order {order}".encode() for order in range(number, ORDERS, PARTITIONS)],
            partition=number,
        )


def run(spark: SparkSession, broker: Broker, shop: Shop, folder: Path) -> None:
    """Run the query until the backlog is drained or an error occurs."""
    reader = spark.readStream.format("kshare").option("kafka.bootstrap.servers", broker.bootstrap)
    reader = reader.option("group", GROUP).option("subscribe", TOPIC)
    reader = reader.option("settleRows", "true").option("maxRecordsPerTrigger", str(A_BATCH))
    query = (
        reader.load()
        .writeStream.foreachBatch(shop.ship)
        .option("checkpointLocation", str(folder / "checkpoint"))
    )
    query.trigger(availableNow=True).start().awaitTermination()


def tell(broker: Broker, shop: Shop) -> None:
    shipped = Counter(order for orders in shop.batches.values() for order in orders)
    repeated = sum(count > 1 for count in shipped.values())
    missing = {f"order {order}" for order in range(ORDERS)} - POISON - shipped.keys()
    dead = sorted(bytes(record.value or b"").decode() for record in broker.records(DEAD_LETTERS))
    say(
        f"\nshipped {len(shipped)}   twice {repeated}   missing {len(missing)}   dead letters: {', '.join(dead)}"
    )


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
