"""The folder through which rows are settled belongs to one user."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from kshare.errors import KshareError
from kshare.spark.driver.row_decisions import socket_folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"kshare-spark-{os.getuid()}"


def test_it_is_created_for_its_user(place: Path) -> None:
    assert socket_folder() == socket_folder() == place
    assert place.stat().st_mode & 0o777 == 0o700


def test_one_that_others_may_use_is_refused(place: Path) -> None:
    place.mkdir()
    place.chmod(0o750)
    with pytest.raises(KshareError, match="must be accessible to you only"):
        socket_folder()


def test_a_link_to_another_folder_of_the_user_is_refused(place: Path, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    place.symlink_to(private)
    with pytest.raises(KshareError, match="must be accessible to you only"):
        socket_folder()
