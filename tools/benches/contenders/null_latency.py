"""How soon an acknowledgement can be known to have arrived, at the least: a blocking socket, no loop, no records."""

from __future__ import annotations

import json
import socket
import time

from tools.benches.contenders.arguments import arguments, end_of_input, say
from tools.benches.contenders.null_member import DEADLINE_S, BigFrames, NullMember

_MAX_RECORDS = 500


def read(given: dict[str, str]) -> None:
    ended = end_of_input()
    host, port = given["bootstrap"].split(":")
    acknowledged: list[float] = []
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
        member = NullMember(BigFrames(connection), given["group"], given["topic"], _MAX_RECORDS)
        while len(acknowledged) < int(given["records"]) and not ended.is_set():
            count = member.step()
            if count:
                begun = time.monotonic()
                member.acknowledge()
                acknowledged += [time.monotonic() - begun] * count
    say(json.dumps([[], acknowledged]))


if __name__ == "__main__":
    read(arguments())
