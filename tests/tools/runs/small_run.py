"""Runs pytest within a test: a small test module with the project's own conftest."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
_DEADLINE_S = 120.0
_IMPORTS = """
import ctypes
import os
import signal
import socket
import threading
import time
from pathlib import Path

import anyio
import pytest
from hypothesis import given, strategies
"""


def small_run(
    folder: Path, body: str, *options: str, conftest: str = "", deadline: float = _DEADLINE_S
) -> subprocess.CompletedProcess[str]:
    """Run these tests; raises TimeoutExpired if the run doesn't end."""
    ours = (_ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    (folder / "conftest.py").write_text(ours + textwrap.dedent(conftest), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    lengthy: x\n    long: x\n", encoding="utf-8")
    (folder / "test_it.py").write_text(_IMPORTS + textwrap.dedent(body), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline,
        check=False,
    )
