"""What users install: a wheel with everything in it, and an sdist that needs no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

CHECK = """
import kshare.protocol.record as record
import kshare.protocol.messages.share_fetch_response as response
assert record.__file__.endswith(".py"), record.__file__
assert response.__file__.endswith(".py"), response.__file__
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import read_batches
builder = BatchBuilder()
builder.append(b"works", timestamp=1)
assert [record.value for batch in read_batches(builder.build()) for record in batch] == [b"works"]
message = response.ShareFetchResponse(responses=[response.ShareFetchableTopicResponse()])
assert response.ShareFetchResponse.decode(message.encode(1), 1) == message
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--outdir", folder, ROOT])
    return folder


def run(command: list[str | Path], cwd: Path = ROOT, **environment: str) -> None:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_the_wheel_holds_types_and_tables(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "kshare/py.typed",
        "kshare/protocol/record.pxd",
        "kshare/protocol/messages/share_fetch_request.py",
    } <= names
    assert "kshare/dissect/fields/share_fetch_request.py" in names
    assert not [
        name for name in names if name.startswith(("tests", "tools", "schemas")) or name.endswith(".c")
    ]


def test_the_sdist_installs_without_a_compiler(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert not [name for name in archive.getnames() if name.endswith((".c", ".so"))]
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", "--no-binary", "kshare", sdist], CC="/bin/false")
    run([python, "-c", CHECK], cwd=tmp_path)
