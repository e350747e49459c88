"""KSHARE_FAST=0: no compiled module is loaded, no optimization is active, and the same tests pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kshare import fast

ROOT = Path(__file__).parents[2]

LOADED = """
import sys
import kshare.client.consumer, kshare.spark, kshare.sync, kshare.worker, kshare.protocol.record_columns
from kshare.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest
files = {name: module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "kshare"}
print(len(files) > 50, *sorted(name for name, file in files.items() if not file.endswith(".py")))
"""


def switched(value: str, *arguments: str, timeout: float = 120) -> str:
    """What Python prints with this value of the switch."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, fast.SWITCH: value},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.lengthy
def test_with_the_switch_off_nothing_compiled_is_loaded() -> None:
    assert switched("0", "-c", LOADED) == "True\n"


@pytest.mark.lengthy
@pytest.mark.parametrize("value", ["", "1"])
def test_otherwise_every_compiled_module_is_loaded(value: str) -> None:
    beside = {
        path.relative_to(ROOT).with_name(path.name.partition(".")[0]).as_posix().replace("/", ".")
        for path in (ROOT / "kshare").rglob("*.so")
    }
    assert {*switched(value, "-c", LOADED).split()[1:]} == beside


RECYCLED = """
from tests.fakes.batches import batch
print(len({id(record) for record in batch(0, 100)}) == 2)
"""
TAKEN = """
import anyio
from tests.fakes.batches import Batches, batch

async def main():
    stream = Batches(batch(0, 5)).records()
    await anext(stream)
    one = anext(stream)
    await one
    print(anext(stream) is one)

anyio.run(main)
"""


@pytest.mark.lengthy
@pytest.mark.parametrize("code", [RECYCLED, TAKEN])
def test_with_the_switch_off_objects_are_not_reused(code: str) -> None:
    assert [switched(value, "-c", code) for value in ("0", "1")] == ["False\n", "True\n"]


@pytest.mark.lengthy
def test_the_tests_pass_with_the_switch_off() -> None:
    folders = [f"tests/{name}" for name in ("fast", "protocol", "state")]
    client = [
        f"tests/client/test_{name}.py"
        for name in ("commit", "consumer", "deserialize", "holdings", "record", "streams")
    ]
    client.append("tests/engine/test_node_session.py")
    said = switched("0", "-m", "pytest", "-q", "--quick", *folders, *client, timeout=280)
    assert " passed" in said
