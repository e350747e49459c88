"""Every command with `--json` prints JSON: one value, or one per line. New commands must be added here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from kshare.cli.app import app
from kshare.testing import Broker
from tests.cli.packets import CAPTURES
from tests.cli.running import Kshare, kshare
from tests.helpers.rejecting import reject

ELSEWHERE = {"trace", "worker check", "spark journal return"}
"""The first ends at a signal; `tests.cli.tracing` parses its lines as JSON. The second needs a program:
`tests.cli.worker.test_check`. The third needs a journal: `tests.cli.spark.test_run`."""
CALLS = {
    "decode": ["--as", "request", "00120003 00000007 0007 7061636b657273 00 01 01 00"],
    "doctor": [],
    "top": ["--once", "--interval", "0.1"],
    "lag": [],
    "consume": ["--topic", "orders", "--group", "fresh", "--max-messages", "2"],
    "produce": ["--topic", "orders", "--count", "3"],
    "state": ["shippers"],
    "pcap": [str(CAPTURES / "ethernet.pcap")],
    "topics list": [],
    "topics create": ["returns", "--partitions", "2"],
    "topics delete": ["spare"],
    "groups list": [],
    "groups describe": ["shippers", "--members", "--offsets", "--state"],
    "groups reset-offsets": ["shippers", "--to-earliest"],
    "groups delete-offsets": ["doomed", "--topic", "orders"],
    "groups delete": ["doomed"],
    "groups config show": ["shippers"],
    "groups config set": ["shippers", "share.session.timeout.ms=50000"],
    "groups config unset": ["shippers", "share.session.timeout.ms"],
    "spark journal inspect": [],
    "dlq list": [],
    "dlq show": ["dlq.orders"],
    "dlq redrive": ["dlq.orders", "--dry-run"],
    "dlq drop": ["dlq.orders", "--all", "--dry-run"],
}


def with_json() -> Iterator[str]:
    def walk(command: Any, *words: str) -> Iterator[str]:
        for name, below in getattr(command, "commands", {}).items():
            yield from walk(below, *words, name)
        if any("--json" in param.opts for param in command.params):
            yield " ".join(words)

    return walk(typer.main.get_command(app))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Groups with offsets and settings, and dead letters."""
    with Broker(topics={"orders": 1, "dlq.orders": 1, "spare": 1}) as broker:
        deadly = {"errors.deadletterqueue.topic.name": "dlq.orders"}
        broker.set_topic_config("dlq.orders", {"errors.deadletterqueue.group.enable": "true"})
        broker.produce("orders", [b"%d" % number for number in range(5)])
        for group, more in (("shippers", deadly), ("doomed", {}), ("fresh", {})):
            broker.set_group_config(group, {"share.auto.offset.reset": "earliest", **more})
        for group in ("shippers", "doomed"):
            reject(broker.bootstrap, group, "orders", 5)
        yield broker


@pytest.fixture(autouse=True)
def _where(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)


def connecting() -> Iterator[str]:
    """Those of the commands that take a properties file."""
    commands = typer.main.get_command(app)
    for name in CALLS:
        command = commands
        for word in name.split():
            command = command.commands[word]  # type: ignore[attr-defined]
        if any("--command-config" in param.opts for param in command.params):
            yield name


@pytest.mark.parametrize("command", [*connecting()])
def test_a_failure_is_said_on_stderr_only(run: Kshare, command: str, tmp_path: Path) -> None:
    invalid = tmp_path / "invalid.properties"
    invalid.write_text("security.protocol\n", encoding="utf-8")
    done = run(*command.split(), *CALLS[command], "--json", "--command-config", str(invalid))
    assert (done.code, done.out) == (1, "")
    assert done.err == f"kshare: {invalid}, line 1: expected name=value\n"


def read_json(out: str) -> list[Any]:
    """Parse one value, or one per line."""
    try:
        return [json.loads(out)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in out.splitlines()]


def test_all_commands_with_json_are_listed_here() -> None:
    assert set(with_json()) == ELSEWHERE | set(CALLS)


@pytest.mark.parametrize("command", CALLS)
def test_output_is_json(run: Kshare, command: str) -> None:
    way = kshare if command == "consume" else run  # consume writes to the descriptor of stdout
    done = way(*command.split(), *CALLS[command], "--json")
    assert done.code == 0, done
    assert read_json(done.out), done
