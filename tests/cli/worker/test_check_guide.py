"""docs/worker-deploy.md: its app and its file are valid, and its transcript is what the command prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kshare.testing import Broker
from kshare.worker.config import VARIABLE_PREFIX
from tests.cli.running import ROOT, Kshare
from tests.helpers.documents import BROKER, blocks

GUIDE = ROOT / "docs" / "worker-deploy.md"


def block(wanted: str) -> str:
    """The first block in this language."""
    return next(text for language, text in blocks(GUIDE) if language == wanted)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The app and the file of the guide, in the current directory. Its module isn't called `shop`, but otherwise."""
    (tmp_path / "shop_of_guide.py").write_text(block("python"))
    (tmp_path / "shop.toml").write_text(block("toml"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return "shop_of_guide:worker"


def check(run: Kshare, broker: Broker, shop: str, command: str) -> str:
    words = ["--bootstrap-server", broker.bootstrap]
    done = run(*(shop if word == "shop:worker" else word for word in shlex.split(command)[1:]), *words)
    assert done.code == 0, done.err
    return done.out.replace(broker.bootstrap, BROKER)


def test_the_transcript_of_check(kshare_broker: Broker, run: Kshare, shop: str) -> None:
    kshare_broker.create_topic("orders", 4)
    (text,) = [text for _, text in blocks(GUIDE) if text.startswith("$ kshare worker check")]
    first, _, output = text.partition("\n")
    assert check(run, kshare_broker, shop, first.removeprefix("$ ")) == output


def test_the_example_of_a_file_and_of_variables(
    kshare_broker: Broker, run: Kshare, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kshare_broker.create_topic("orders", 4)
    variables = re.findall(rf"({VARIABLE_PREFIX}\w+)=('[^']*'|\S+)", GUIDE.read_text(encoding="utf-8"))
    assert len(variables) == 3
    for name, value in variables:
        monkeypatch.setenv(name, value.strip("'"))
    assert "orders.retry.10m" in check(
        run, kshare_broker, shop, "kshare worker check shop:worker --config shop.toml"
    )
