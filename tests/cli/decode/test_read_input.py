"""Input of `kshare decode`: files and standard input."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshare.cli.decode.read_input import read_input
from kshare.cli.terminal.failure import Failure
from tests.cli import frames
from tests.cli.dumps import dump
from tests.cli.running import kshare

FRAME = frames.fetch_request()


def test_files_contain_bytes_or_text(tmp_path: Path) -> None:
    for name, content in (("raw", FRAME), ("hex", FRAME.hex().encode()), ("dump", dump(FRAME).encode())):
        (tmp_path / name).write_bytes(content)
        assert bytes(read_input(str(tmp_path / name), None)) == FRAME


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(Failure, match="no bytes at all"):
        read_input(str(tmp_path / "empty"), None)


@pytest.mark.lengthy
@pytest.mark.parametrize("content", [FRAME, FRAME.hex().encode() + b"\n"])
@pytest.mark.parametrize("source", [[], ["-"]])
def test_standard_input_contains_bytes_or_text(content: bytes, source: list[str]) -> None:
    done = kshare("decode", *source, "--field", "groupId", stdin=content)
    assert (done.code, done.err) == (0, "")
    assert 'groupId "orders"' in done.out
