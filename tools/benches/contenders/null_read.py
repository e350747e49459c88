"""What the broker allows: fetches and accepts as fast as answers come, and never looks at a record.

Each request accepts what the one before has brought.
"""

from __future__ import annotations

import socket

from tools.benches.contenders.arguments import arguments, end_of_input
from tools.benches.contenders.meter import Meter
from tools.benches.contenders.null_member import DEADLINE_S, BigFrames, NullMember

_DEFAULT_RECORDS = 500
"""What Kafka's own consumer asks for."""


def read(given: dict[str, str]) -> None:
    ended = end_of_input()
    host, port = given["bootstrap"].split(":")
    seen, records = 0, int(given["records"])
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
        meter = Meter()
        client = BigFrames(connection)
        member = NullMember(
            client, given["group"], given["topic"], int(given.get("max_records", _DEFAULT_RECORDS))
        )
        while seen < records and not ended.is_set():
            count = member.step()
            if count:
                meter.on_records()
            seen += count
        meter.report(seen)


if __name__ == "__main__":
    read(arguments())
