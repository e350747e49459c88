"""Kafka's jars are downloaded once, completely or not at all, into the user's cache."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.kafka import jars
from tools.kafka.ivy import ResolutionError, Wanted

_Fetch = Callable[[Wanted, Path, Path, Callable[[int], None]], None]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kshare" / "kafka"


def _fetching(monkeypatch: pytest.MonkeyPatch, fetch: _Fetch) -> None:
    monkeypatch.setattr(jars, "fetch", fetch)


def test_installed_jars_are_not_downloaded_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = []

    def fetch(wanted: Wanted, into: Path, scratch: Path, progress: Callable[[int], None]) -> None:
        fetched.append(wanted)
        (into / "kafka-clients-4.3.1.jar").touch()

    _fetching(monkeypatch, fetch)
    assert jars.install("4.3.1") == jars.install("4.3.1") == cache / "4.3.1"
    assert len(fetched) == 1
    assert jars.jar("4.3.1", "kafka-clients").exists()


def test_failed_download_is_repeated_once_and_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    def fetch(wanted: Wanted, into: Path, scratch: Path, progress: Callable[[int], None]) -> None:
        attempts.append(into)
        (into / "half.jar").touch()
        raise ResolutionError("the line broke")

    _fetching(monkeypatch, fetch)
    with pytest.raises(ResolutionError, match="the line broke"):
        jars.install("4.3.1")
    assert len(attempts) == 2
    assert [path.name for path in cache.iterdir()] == [".4.3.1.lock"]


def test_concurrent_installs_download_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fetching = threading.Event()
    fetched: list[Wanted] = []

    def fetch(wanted: Wanted, into: Path, scratch: Path, progress: Callable[[int], None]) -> None:
        fetching.set()
        second.start()
        fetched.append(wanted)

    def ask() -> None:
        assert fetching.wait(10)
        jars.install("4.3.1")

    second = threading.Thread(target=ask)
    _fetching(monkeypatch, fetch)
    jars.install("4.3.1")
    second.join(10)
    assert len(fetched) == 1


def test_unknown_release_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'4\.0\.0'.*4\.1\.2"):
        jars.install("4.0.0")
