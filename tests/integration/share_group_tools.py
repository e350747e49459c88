"""What `kshare groups` and Kafka's own tool say about share groups."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.running import kshare
from tools.kafka.cluster import Cluster

_TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


def ours(kafka: Cluster, *words: str) -> Any:
    done = kshare("groups", *words, "--bootstrap-server", kafka.bootstrap, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def theirs(kafka: Cluster, *words: str) -> list[list[str]]:
    """The rows of the table, without headers."""
    rows = [line.split() for line in kafka.run_tool(_TOOL, *words).stdout.splitlines() if line.strip()]
    return rows[[row[0] for row in rows].index("GROUP") + 1 :]


def shown(number: int | None) -> str:
    return "-" if number is None else str(number)
