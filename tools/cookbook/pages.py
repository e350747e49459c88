"""The documents that show scenarios: a comment names the scenario, and the block after it has the output.

Decides what is shown: the whole output in the guide to the command; in the cookbook, no table of APIs, and only the
first ones of many empty fetches.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from kshare.testing import Broker
from tools.cookbook.scenarios import GROUP, LOCKS_S, SCENARIOS, TOPIC
from tools.tracing import tracing

_DOCS = Path(__file__).parents[2] / "docs"
DOCUMENTS = (_DOCS / "cli.md", _DOCS / "cookbook.md")

_PLACE = re.compile(r"(<!-- kshare trace: (\w+)( whole)? -->\n```text\n)(.*?)^```$", re.MULTILINE | re.DOTALL)
_APIS = re.compile(r"^API .*?\n\n", re.MULTILINE | re.DOTALL)
_NOTHING = re.compile(
    r"((?:^\S+ \S+ → .*  nothing  \S+ ms\n){2})(?:^\S+ \S+ → .*  nothing  \S+ ms\n){2,}", re.MULTILINE
)
_COMMAND = f"$ kshare trace --bootstrap-server localhost:9092 --group {GROUP}"
_WIDTH = 118
"""The width at which lines are cut, as on a terminal."""


def shown(text: str) -> dict[str, str]:
    """Scenario → its block in the document."""
    return {match[2]: match[4] for match in _PLACE.finditer(text)}


def refreshed(text: str) -> str:
    return _PLACE.sub(_block, text)


def _block(match: re.Match[str]) -> str:
    output = output_of(match[2])
    if not match[3]:
        output = _NOTHING.sub(r"\1…\n", _APIS.sub("", output))
    return f"{match[1]}{_COMMAND}\n{output}\n```"


def output_of(scenario: str, *, port: int = 19092) -> str:
    """The whole output of `kshare trace` in a scenario, with the usual addresses in place of the real ones."""
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
        listen = f"127.0.0.1:{port}"
        with tracing(broker.bootstrap, path, "--group", GROUP, listen=listen) as address:
            SCENARIOS[scenario](address, broker)
        output = path.read_text().replace(broker.bootstrap, "localhost:9092")
    output = re.sub(r"(clients of \S+ connect to) \S+", r"\1 127.0.0.1:19092", output)
    return "\n".join(
        line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…" for line in output.splitlines()
    )
