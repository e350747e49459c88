"""The file of users is read again once it has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshare.web.users import UsersFile


def test_a_change_counts_at_once_and_a_broken_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "users"
    path.write_text("anna:change\n")
    path.chmod(0o600)
    file = UsersFile(path, has_passwords=False)
    assert file.current().named("anna").may_change
    path.write_text("anna:read\n# no longer\n")
    assert not file.current().named("anna").may_change
    path.write_text("anna:all\n")
    assert not file.current().named("anna").may_change
    path.unlink()
    assert not file.current().named("anna").may_change
    path.write_text("anna:change\n")
    path.chmod(0o600)
    for _ in range(3):
        assert file.current().named("anna").may_change
    kept = ": until that is fixed, users and rights remain as they were"
    read = f"users file {path} has changed, and was read again"
    assert [record.getMessage() for record in caplog.records] == [
        read,
        f"users file {path}, line 1: expected name:read or name:change{kept}",
        f"there is no users file {path}: `kshare web --make-user NAME` writes lines for it{kept}",
        read,
    ]
