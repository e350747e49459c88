"""Runs a scenario through `kshare trace`, and returns its output."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from kshare.testing import Broker
from tools.cookbook.scenarios import GROUP, LOCKS_S, SCENARIOS, TOPIC
from tools.tracing import tracing

_WIDTH = 118
"""The width at which lines are cut, as on a terminal."""


def output_of(scenario: str, *options: str, port: int = 19092) -> str:
    """The whole output of a scenario, with the usual addresses in place of the real ones."""
    settings = {"group.share.min.record.lock.duration.ms": "1000"}
    with Broker(topics={TOPIC: 1}, settings=settings) as broker, tempfile.TemporaryDirectory() as folder:
        broker.set_group_config(
            GROUP,
            {
                "share.auto.offset.reset": "earliest",
                "share.record.lock.duration.ms": str(int(LOCKS_S[scenario] * 1000)),
            },
        )
        broker.produce(TOPIC, [b"order %d" % number for number in range(15)])
        path = Path(folder) / "said"
        with tracing(broker.bootstrap, path, *options, listen=f"127.0.0.1:{port}") as address:
            SCENARIOS[scenario](address, broker)
        output = path.read_text().replace(broker.bootstrap, "localhost:9092")
    output = re.sub(r"(clients of \S+ connect to) \S+", r"\1 127.0.0.1:19092", output)
    return "\n".join(
        line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…" for line in output.splitlines()
    )
