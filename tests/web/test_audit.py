"""The file of the audit log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kshare.web.audit import AuditLog

pytestmark = pytest.mark.anyio


async def test_the_file_is_its_owners_alone(anyio_backend: str, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        path = tmp_path / "audit.log"
        audit = AuditLog(path)
        assert path.stat().st_mode & 0o777 == 0o600
        path.rename(tmp_path / "audit.log.1")  # as log rotation does
        async with audit.change("alice", "reset", "orders"):
            pass
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


async def test_a_file_that_exists_keeps_its_mode(anyio_backend: str, tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.touch()
    path.chmod(0o640)
    async with AuditLog(path).change("alice", "reset", "orders"):
        pass
    assert path.stat().st_mode & 0o777 == 0o640
