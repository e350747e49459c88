"""With one more version and new fields in the messages, codecs, dissector, proxy, broker and consumer still work.

With one more acknowledgement type, three files change by hand: `schemas/error_codes.json` says what it is, the record
gets a method for it (`kshare/client/record.py`), and the embedded broker does what it means
(`kshare/broker/shares/share_partition.py`; mypy says so). Everything else follows from the generated enum.

Each test runs in a new process, because modules refer to the messages that existed when they were imported.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from kshare.protocol.acknowledge_types import FINAL
from tools.kgen.generate import MARK

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


def test_only_generated_modules_list_the_acknowledgement_types() -> None:
    listing = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "kshare").rglob("*.py"))
        if not (text := path.read_text(encoding="utf-8")).startswith(MARK)
        if any(_lists_types(node) for node in ast.walk(ast.parse(text)))
    ]
    assert listing == []


@pytest.mark.parametrize(
    "code",
    [
        "A = {0: 'gap', 1: 'accept', 2: 'release', 3: 'reject', 4: 'renew'}",
        "GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)",
        "A = Literal['gap', 'accept', 'release', 'reject', 'renew']",
        "A = (AckType.GAP, AckType.ACCEPT, AckType.RELEASE, AckType.REJECT)",
    ],
)
def test_lists_of_types_are_found(code: str) -> None:
    assert any(_lists_types(node) for node in ast.walk(ast.parse(code)))


def _lists_types(node: ast.AST) -> bool:
    """Whether this is a collection that names all types that end a delivery."""
    if not isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
        return False
    values = [*node.keys, *node.values] if isinstance(node, ast.Dict) else node.elts
    words = {
        str(value).lower()
        for element in values
        for part in ast.walk(element or node)
        for value in (
            getattr(part, "value", None) if isinstance(part, ast.Constant) else None,
            getattr(part, "id", None),
            getattr(part, "attr", None),
        )
    }
    return words >= {kind.word for kind in FINAL}
