"""Names, rights and hashed passwords of the console's users."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshare.errors import ConfigError
from kshare.web.users import User, Users, read_entries, user_line

EARLIER = (
    "scrypt$MDEyMzQ1Njc4OWFiY2RlZg==$"
    "0LupyHkzAIgDr9UDsriAAf87vMbCbcaUfDvFOAHk0D0j5FDm643A031eTgoXAgCtB9917OPAizRUNx9itOkmEA=="
)
"""As it was written when hashes didn't say what they cost: of "correct horse"."""


@pytest.mark.lengthy
def test_hashes_cost_what_is_advised(tmp_path: Path) -> None:
    line = user_line("anna", "correct horse", may_change=True)
    assert line.startswith("anna:change:scrypt$ln=17,r=8,p=1$")
    (tmp_path / "users").write_text(line)
    users = Users(read_entries(tmp_path / "users"))
    assert users.check("anna", "correct horse") == User("anna", True)
    assert users.check("anna", "correct hors") is None


@pytest.mark.lengthy
def test_hashes_of_earlier_versions_stay_valid(tmp_path: Path) -> None:
    (tmp_path / "users").write_text(f"anna:read:{EARLIER}")
    users = Users(read_entries(tmp_path / "users"))
    assert users.check("anna", "correct horse") == User("anna", False)
    assert users.check("anna", "correct hors") is None


@pytest.mark.parametrize("cost", ["ln=30,r=8,p=1", "ln=13,r=8,p=1", "ln=17,r=999,p=1", "ln=17"])
def test_hashes_of_unreasonable_cost_are_refused(tmp_path: Path, cost: str) -> None:
    (tmp_path / "users").write_text(f"anna:read:{EARLIER.replace('scrypt', f'scrypt${cost}')}")
    with pytest.raises(ConfigError, match="line 1: expected name:read:hash"):
        Users(read_entries(tmp_path / "users"))


@pytest.mark.lengthy
def test_what_was_checked_is_forgotten_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"anna:read:{EARLIER}\nben:read:{EARLIER}\n")
    users = Users(read_entries(path))
    for name in ("anna", "ben"):
        assert users.check(name, "correct horse") == users.remembered(name, "correct horse")
    other = EARLIER.replace("0Lup", "0Luq")
    path.write_text(f"anna:change:{EARLIER}\nben:read:{other}\n")
    users.replace(read_entries(path))
    assert users.remembered("anna", "correct horse") == User("anna", True)
    assert users.remembered("ben", "correct horse") is None
    assert users.check("ben", "correct horse") is None


def test_users_of_a_proxy_have_rights_and_no_passwords(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"anna:change\nben:read:{EARLIER}\n")
    users = Users(read_entries(path, has_passwords=False))
    assert [users.named(name) for name in ("anna", "ben", "guest")] == [
        User("anna", True),
        User("ben", False),
        User("guest", False),
    ]
    path.write_text("*:change\nben:read\n")
    users.replace(read_entries(path, has_passwords=False))
    assert [users.named(name).may_change for name in ("guest", "ben")] == [True, False]
    with pytest.raises(ConfigError, match="line 1: expected name:read:hash"):
        read_entries(path)
    path.write_text("anna:change:plain\n")
    with pytest.raises(ConfigError, match="line 1: expected name:read or name:change"):
        read_entries(path, has_passwords=False)
