"""How soon an acknowledgement can be known to have arrived, at the least: a blocking socket, no loop, no records."""

from __future__ import annotations

import json
import time

from tools.benches.contenders.arguments import arguments, end_of_input, say
from tools.benches.contenders.null_member import joined


def read(given: dict[str, str]) -> None:
    ended = end_of_input()
    records = int(given["records"])
    acknowledged: list[float] = []
    with joined(given) as member:
        while len(acknowledged) < records and not ended.is_set():
            count = member.step()
            if count:
                begun = time.monotonic()
                member.acknowledge()
                acknowledged += [time.monotonic() - begun] * count
    say(json.dumps([[], acknowledged]))


if __name__ == "__main__":
    read(arguments())
