"""Where downloads are kept."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from tools import cache


@pytest.mark.parametrize("home", ["", None])
def test_without_a_home_it_is_in_the_users_home_directory(
    monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    own = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert cache.folder() == own / ".cache" / "kshare"


def test_the_variable_of_the_desktop_standard_comes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "kshare"
