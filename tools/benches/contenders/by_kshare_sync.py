"""kshare's consumer for blocking code: reads as fast as possible, or measures latency."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from kshare.sync import ShareConsumer
from tools.benches.contenders.program import Delays, Given, Meter, end_of_input, main, reading_options


def consumer_of(given: Given, **options: Any) -> ShareConsumer:
    return ShareConsumer(given["bootstrap"], group=given["group"], topics=[given["topic"]], **options)


def by_batches(consumer: ShareConsumer, records: int, meter: Meter) -> int:
    seen = 0
    for batch in consumer.batches():
        meter.on_records()
        seen += sum([value is not None for value in batch.values()])
        if seen >= records:
            break
    return seen


def by_records(consumer: ShareConsumer, records: int, meter: Meter, *, is_explicit: bool = False) -> int:
    seen = 0
    for record in consumer:
        if not seen:
            meter.on_records()
        seen += record.value is not None
        if is_explicit:
            record.accept()
        if seen >= records:
            break
    return seen


WAYS: dict[str, Callable[[ShareConsumer, int, Meter], int]] = {
    "batches": by_batches,
    "records": by_records,
    "explicit": partial(by_records, is_explicit=True),
}


def read(given: Given) -> None:
    """Accesses every value, in one of several ways."""
    end_of_input()
    meter = Meter()
    with consumer_of(given, **reading_options(given)) as consumer:
        meter.report(WAYS[given["way"]](consumer, int(given["records"]), meter))


def latency(given: Given) -> None:
    end_of_input()
    delays = Delays(given)
    with consumer_of(given, acknowledgement=given["mode"]) as consumer:
        for batch in consumer.batches():
            received = time.monotonic()
            delays.hand += [time.monotonic() - float(record.value or b"") for record in batch]
            if delays.is_explicit:
                batch.accept()
                delays.on_committed(received, consumer.commit())
            if delays.is_complete:
                break
    delays.report()


if __name__ == "__main__":
    main(read, latency)
