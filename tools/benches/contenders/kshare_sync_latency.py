"""Measures the latency until kshare.sync has a record, and until it knows that the acknowledgement is confirmed."""

from __future__ import annotations

import json
import time

from kshare.sync import ShareConsumer
from tools.benches.contenders.arguments import arguments, end_of_input, say


def read(given: dict[str, str]) -> None:
    end_of_input()
    records, is_explicit = int(given["records"]), given["mode"] == "explicit"
    hand: list[float] = []
    acknowledged: list[float] = []
    with ShareConsumer(
        given["bootstrap"],
        group=given["group"],
        topics=[given["topic"]],
        acknowledgement="explicit" if is_explicit else "implicit",
    ) as consumer:
        for batch in consumer.batches():
            received = time.monotonic()
            hand += [time.monotonic() - float(record.value or b"") for record in batch]
            if is_explicit:
                batch.accept()
                results = consumer.commit()
                if any(results.values()):
                    raise RuntimeError(f"refused: {results}")
                acknowledged += [time.monotonic() - received] * (len(hand) - len(acknowledged))
            if len(hand) >= records:
                break
    say(json.dumps([hand, acknowledged]))


if __name__ == "__main__":
    read(arguments())
