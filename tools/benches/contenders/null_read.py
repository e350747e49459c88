"""Measures what the broker allows: fetches and accepts as fast as possible, without decoding records.

Each request accepts the records of the previous one.
"""

from __future__ import annotations

from tools.benches.contenders.arguments import arguments, end_of_input
from tools.benches.contenders.meter import Meter
from tools.benches.contenders.null_member import joined


def read(given: dict[str, str]) -> None:
    ended = end_of_input()
    seen, records = 0, int(given["records"])
    meter = Meter()
    with joined(given) as (member, client):
        while seen < records and not ended.is_set():
            heartbeat = member.heartbeat()
            if heartbeat is not None:
                client.ask(heartbeat)
            count = member.on_fetched(client.ask(member.fetch()))
            if count:
                meter.on_records()
            seen += count
        meter.report(seen)


if __name__ == "__main__":
    read(arguments())
