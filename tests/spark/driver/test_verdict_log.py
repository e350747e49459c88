"""The log of verdicts: what a call has written is found again, also after a crash of the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kshare.spark.driver.offset_sets import PartitionRange
from kshare.spark.driver.verdict_log import VerdictLog

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
