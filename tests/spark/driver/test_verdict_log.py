"""The log of verdicts: what a call has written is found again, also after a crash of the machine.

It is written off the event loop, in the order of the calls.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from kshare.spark.driver.decisions import Verdicts
from kshare.spark.driver.offset_sets import PartitionRange
from kshare.spark.driver.verdict_log import VerdictLog, VerdictWriter

PLACE = (b"0123456789abcdef", 0)
PATIENCE_S = 60.0
SPAN = PartitionRange((b"\1" * 16, 0), 3, 4)


def test_decisions_are_found_by_another_process(tmp_path: Path) -> None:
    VerdictLog(tmp_path, "member").write(7, {"reject": [SPAN]})
    assert VerdictLog(tmp_path, "member").read(7) == {"reject": [SPAN]}
    assert VerdictLog(tmp_path, "member").read(8) is None


def test_a_crash_of_the_machine_cant_bring_the_file_from_before_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is written to the disk, too, and not only its contents."""
    synced: list[tuple[int, bytes]] = []

    def fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        synced.append((status.st_ino, b"".join(path.read_bytes() for path in tmp_path.glob("*.verdicts"))))

    monkeypatch.setattr(os, "fsync", fsync)
    VerdictLog(tmp_path, "member").write(7, {"reject": [SPAN]})
    written = (tmp_path / "member.verdicts").read_bytes()
    assert synced[-1] == (tmp_path.stat().st_ino, written)


def rejected(last: int) -> Verdicts:
    return {"reject": [PartitionRange(PLACE, 0, last)]}


class SlowLog(VerdictLog):
    """Its disk is stuck until it is let go."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "slow")
        self.let_go = threading.Event()
        self.written: list[Verdicts] = []

    def write(self, batch: int, verdicts: Verdicts) -> None:
        assert self.let_go.wait(PATIENCE_S)
        super().write(batch, verdicts)
        self.written.append(verdicts)


@pytest.mark.anyio
async def test_what_was_written_can_be_read(tmp_path: Path) -> None:
    log = VerdictLog(tmp_path, "member")
    writer = VerdictWriter(log)
    await writer.begin(3)
    assert log.read(3) == {}
    await writer.write(3, rejected(5))
    assert log.read(3) == rejected(5)
    await writer.begin(3)
    assert log.read(3) == rejected(5), "asked for the same batch again"


@pytest.mark.anyio
async def test_a_slow_disk_stops_neither_the_loop_nor_the_order(tmp_path: Path) -> None:
    log = SlowLog(tmp_path)
    writer = VerdictWriter(log)
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            for last in range(10):
                tasks.start_soon(writer.write, 3, rejected(last))
                await anyio.lowlevel.checkpoint()
            assert log.written == [], "the loop runs, though the disk doesn't"
            log.let_go.set()
    assert log.written == [rejected(last) for last in range(10)]


@pytest.mark.anyio
async def test_a_cancelled_write_is_finished_before_the_next_begins(tmp_path: Path) -> None:
    log = SlowLog(tmp_path)
    writer = VerdictWriter(log)
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.write, 3, rejected(1))
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            log.let_go.set()
        await writer.write(3, rejected(2))
    assert log.written == [rejected(1), rejected(2)]
