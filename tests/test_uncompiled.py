"""Compiled modules as plain Python: the same tests pass in a process that loads no `.so`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lengthy

ROOT = Path(__file__).parents[1]
COMPILED = (
    "ShareFetch or ShareAcknowledge or unknown or records or credentials or refused or nested or megabytes"
)


def _passes_uncompiled(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.helpers.source_only", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
    assert "kshare from its sources" in done.stdout


def test_messages_pass_the_same_tests_uncompiled() -> None:
    tests = [
        f"tests/protocol/test_{name}.py" for name in ("messages", "hostile", "golden", "frames", "by_name")
    ]
    _passes_uncompiled("-k", COMPILED, *tests)


def test_records_streams_and_leases_pass_the_same_tests_uncompiled() -> None:
    tests = [f"tests/client/test_{name}.py" for name in ("record", "streams", "deserialize")]
    tests += ["tests/fast/test_awaiting.py", "tests/engine/test_node_session.py"]
    _passes_uncompiled(*tests, "tests/state/test_acks.py", "tests/state/test_lease.py")
