"""Reads records as fast as possible with kshare.sync, and accesses every value."""

from __future__ import annotations

from typing import Any

from kshare.sync import ShareConsumer
from tools.benches.contenders.arguments import arguments, end_of_input
from tools.benches.contenders.meter import Meter


def by_batches(consumer: ShareConsumer, records: int, meter: Meter) -> int:
    seen = 0
    for batch in consumer.batches():
        meter.on_records()
        seen += sum([value is not None for value in batch.values()])
        if seen >= records:
            break
    return seen


def by_records(consumer: ShareConsumer, records: int, meter: Meter) -> int:
    seen = 0
    for record in consumer:
        if not seen:
            meter.on_records()
        seen += record.value is not None
        if seen >= records:
            break
    return seen


def one_by_one(consumer: ShareConsumer, records: int, meter: Meter) -> int:
    seen = 0
    for record in consumer:
        if not seen:
            meter.on_records()
        seen += record.value is not None
        record.accept()
        if seen >= records:
            break
    return seen


WAYS = {"batches": by_batches, "records": by_records, "explicit": one_by_one}


def read(given: dict[str, str]) -> None:
    end_of_input()
    options: dict[str, Any] = {"max_records": int(given["max_records"])} if "max_records" in given else {}
    if given["way"] == "explicit":
        options["acknowledgement"] = "explicit"
    meter = Meter()
    with ShareConsumer(
        given["bootstrap"], group=given["group"], topics=[given["topic"]], **options
    ) as consumer:
        meter.report(WAYS[given["way"]](consumer, int(given["records"]), meter))


if __name__ == "__main__":
    read(arguments())
