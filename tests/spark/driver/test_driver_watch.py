"""How a runner notices that its driver has ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kshare.spark.driver.driver_watch import DriverWatch


@pytest.mark.parametrize("named", [".", "streaming_job"])
def test_the_folder_of_a_stopped_context_is_gone(tmp_path: Path, named: str) -> None:
    """Spark 4.3 passes a subfolder that doesn't exist."""
    folder = tmp_path / "userFiles"
    folder.mkdir()
    watch = DriverWatch(folder / named)
    assert watch.reason_to_stop() is None
    folder.rmdir()
    assert watch.reason_to_stop() == "its SparkContext was stopped"


def test_a_folder_that_never_existed_is_ignored(tmp_path: Path) -> None:
    assert DriverWatch(tmp_path / "nowhere" / "at all").reason_to_stop() is None
    assert DriverWatch().reason_to_stop() is None


def test_a_changed_parent_means_that_the_driver_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = DriverWatch()
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert watch.reason_to_stop() == "the driver is gone"
