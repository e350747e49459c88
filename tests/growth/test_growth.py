"""With one more version and new fields in the messages, codecs, dissector, proxy, broker and consumer still work.

Each test runs in a new process, because modules refer to the messages that existed when they were imported.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.lengthy

ROOT = Path(__file__).parents[2]
NAMES = "ShareFetchRe or ShareAcknowledgeRe or ShareGroupHeartbeatRe or ProduceRe"
SMALL = "test_round_trip or test_spans or test_unknown"


def _passes_grown(*arguments: str, compiled: bool = False) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.growth.plugin", *arguments]
    environment = {**os.environ, "KSHARE_GROWN_COMPILED": "1"} if compiled else None
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=580, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert f"grown messages, {'compiled' if compiled else 'from their sources'}" in done.stdout


def test_codecs_and_dissector_agree_on_new_versions() -> None:
    files = ("tests/protocol/test_messages.py", "tests/dissect/test_messages.py")
    _passes_grown("-k", f"({SMALL}) and ({NAMES})", *files)


def test_every_package_handles_new_versions() -> None:
    _passes_grown(
        "tests/growth/with_grown_messages.py",
        "tests/trace/test_response_stream.py",
        "tests/trace/test_response_tail.py",
    )


@pytest.mark.timeout(600)
def test_a_compiled_message_handles_new_versions() -> None:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    files = ("tests/protocol/test_messages.py",)
    _passes_grown(
        "-k", "test_round_trip and ShareFetchResponse", *files, compiled=shutil.which(compiler) is not None
    )
