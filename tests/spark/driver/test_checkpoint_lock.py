"""Two queries with the same checkpoint: the second fails, unless the first is just stopping."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from kshare.spark.driver import checkpoint_lock
from kshare.spark.driver.checkpoint_lock import CheckpointInUse, CheckpointLock
from kshare.testing import Broker
from tests.spark.driven import DrivenQuery


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as one:
        yield one


@pytest.mark.lengthy
def test_a_second_query_on_a_checkpoint_fails(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_lock, "_PATIENCE_S", 0.3)
    query = DrivenQuery(broker)
    first, second = query.reader(), query.reader()
    start = first.initialOffset()
    try:
        assert first.latestOffset(start) == start
        with pytest.raises(CheckpointInUse) as caught:
            second.latestOffset(start)
        assert str(caught.value) == (
            f"another query of group {query.group} is running with the same checkpoint on this machine (its runner is "
            f"process {os.getpid()}): stop it, or give this query a checkpointLocation and an output path "
            "of its own"
        )
        first.stop()
        assert second.latestOffset(start) == start
    finally:
        first.stop()
        second.stop()


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_a_query_waits_for_one_that_is_stopping(tmp_path: Path) -> None:
    first, second, third = (CheckpointLock(tmp_path, "member") for _ in range(3))
    await first.acquire("packing")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(second.acquire, "packing")
        await anyio.sleep(0.2)
        first.release()
    assert not third.try_acquire()
    second.release()
    assert not await anyio.Path(tmp_path / "member.lock").exists()


def test_a_file_that_a_killed_process_left_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "member.lock").write_text("1")
    lock = CheckpointLock(tmp_path, "member")
    assert lock.try_acquire()
    lock.release()
