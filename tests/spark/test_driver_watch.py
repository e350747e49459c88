"""What a runner can tell of its driver."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kshare.spark.driver_watch import DriverWatch


@pytest.mark.parametrize("named", [".", "streaming_job"])
def test_a_context_that_stops_takes_its_folder_along(tmp_path: Path, named: str) -> None:
    """Spark 4.3 names a folder in it that isn't there."""
    folder = tmp_path / "userFiles"
    folder.mkdir()
    watch = DriverWatch(folder / named)
    assert watch.reason_to_stop() is None
    folder.rmdir()
    assert watch.reason_to_stop() == "its SparkContext was stopped"


def test_a_folder_that_never_was_says_nothing(tmp_path: Path) -> None:
    assert DriverWatch(tmp_path / "nowhere" / "at all").reason_to_stop() is None
    assert DriverWatch().reason_to_stop() is None


def test_whose_parent_changes_is_an_orphan(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = DriverWatch()
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert watch.reason_to_stop() == "the driver is gone"
