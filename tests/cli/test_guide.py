"""Transcripts in docs/cli.md of commands that need a cluster: run again, they print the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from kshare.testing import Broker
from tests.cli.running import ROOT, Kshare
from tests.helpers.documents import blocks
from tests.helpers.rejecting import reject

SERVER = "localhost:9092"
DEAD = "errors.deadletterqueue."
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_AGREE = re.compile(r"agree within [\d.]+ s")


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """Three orders that shippers rejected, and a group whose dead-letter topic doesn't exist."""
    with Broker(topics={"orders": 1}) as broker:
        monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)
        broker.create_topic("dlq.orders", 1, {f"{DEAD}group.enable": "true"})
        broker.set_group_config(
            "shippers", {"share.auto.offset.reset": "earliest", f"{DEAD}topic.name": "dlq.orders"}
        )
        broker.set_group_config("billing", {f"{DEAD}topic.name": "dlq.billing"})
        broker.produce("orders", [b"a", b"b", b"c"], key=b"42", headers=[("shop", b"north")])
        reject(broker.bootstrap, "shippers", "orders", 3)
        yield broker


def transcripts(command: str) -> list[str]:
    found = [text for _, text in blocks(ROOT / "docs" / "cli.md") if text.startswith(f"$ kshare {command}")]
    assert found, f"docs/cli.md has no transcript of kshare {command}"
    return found


def steady(text: str, broker: Broker) -> str:
    """Replace what differs from run to run."""
    text = _AGREE.sub("agree within 0.0 s", _TIME.sub("2026-11-21 11:20:00", text))
    return text.replace(broker.bootstrap, SERVER)


@pytest.mark.lengthy
@pytest.mark.parametrize("command", ["doctor", "dlq"])
def test_transcripts_match_the_output(command: str, scene: Broker, run: Kshare) -> None:
    for text in transcripts(command):
        again = []
        for line in text.splitlines():
            if line.startswith("$ kshare "):
                done = run(*shlex.split(line)[2:])
                again += [line, *(done.out + done.err).splitlines()]
        assert steady("\n".join(again), scene) == text.rstrip("\n")


@pytest.mark.lengthy
def test_columns_of_top_match_the_documentation(scene: Broker, run: Kshare) -> None:
    (text,) = transcripts("top")
    words = shlex.split(text.splitlines()[0])[2:]
    done = run(*words, "--once", "--interval", "0.1")
    heads = text.splitlines()[2].split()
    assert done.out.splitlines()[1].split() == heads
