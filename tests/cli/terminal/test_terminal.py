"""Output on a terminal, on a closed pipe, and at Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from kshare.protocol.record_builder import BatchBuilder
from tests.cli import frames
from tests.cli.running import DEADLINE, KSHARE, ROOT, Piped, kshare, without_colours
from tests.cli.terminals import on_terminal


@pytest.mark.lengthy
@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("view", [[], ["--hex"]])
def test_lines_fit_the_terminal_and_are_coloured(columns: int, view: list[str]) -> None:
    done = on_terminal("decode", *view, frames.fetch_response().hex(), columns=columns)
    assert done.code == 0
    assert "\x1b[" in done.out
    lines = without_colours(done.out).splitlines()
    assert max(map(len, lines)) <= columns
    # Nothing is wrapped: there are as many lines as without a terminal, and each starts the same.
    plain = kshare("decode", *view, frames.fetch_response().hex()).out.splitlines()
    assert [line[:60].rstrip() for line in lines] == [line[:60].rstrip() for line in plain]


@pytest.mark.lengthy
def test_field_names_are_complete_at_80_columns() -> None:
    done = without_colours(on_terminal("decode", "--hex", frames.fetch_response().hex()).out)
    for name in ("acquisitionLockTimeoutMs 30000", "partitionLeaderEpoch -1", "deliveryCount 1"):
        assert name in done


@pytest.mark.lengthy
def test_data_sends_no_escape_sequences() -> None:
    builder = BatchBuilder()
    builder.append("\x1b]0;title\x07\x9b2J".encode(), timestamp=0)
    for view in ([], ["--hex"], ["--json"]):
        done = on_terminal("decode", *view, bytes(builder.build()).hex())
        assert done.code == 0
        assert "\x1b]" not in done.out
        assert "\x9b" not in done.out
        assert "\x07" not in done.out


@pytest.mark.lengthy
def test_help_and_usage_on_a_terminal() -> None:
    done = on_terminal("--help")
    assert done.code == 0
    assert "decode" in done.out
    assert max(map(len, without_colours(done.out).splitlines())) <= 80
    assert on_terminal("decode").out == (
        "kshare: no input: give bytes as text or a file name, or pipe bytes in\n"
    )


@pytest.mark.lengthy
def test_pipes_get_no_colours() -> None:
    assert "\x1b" not in kshare("decode", frames.fetch_request().hex()).out


@pytest.mark.lengthy
def test_binary_output_to_a_terminal_is_refused() -> None:
    form = '{"message": "ShareUpdateKey", "version": 0}'
    done = on_terminal("encode", form, "--output", "binary")
    assert (done.code, done.out) == (
        1,
        "kshare: binary output would garble the terminal: redirect it to a file, or use --output hex\n",
    )
    assert kshare("encode", form, "--output", "binary").out == "\0" * 22


@pytest.mark.lengthy
def test_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(b"".join(frames.batch(offset * 2) for offset in range(2000)))
    with Piped("decode", str(path)) as reader:
        assert reader.line().startswith(b"records")
        reader.close()
        assert reader.end() == (141, b"")


@pytest.mark.lengthy
def test_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    path = tmp_path / "slow"
    os.mkfifo(path)
    process = subprocess.Popen(
        [*KSHARE, "decode", str(path)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process, path.open("wb", buffering=0) as fifo:
        fifo.write(b"00")
        wait_until_read(fifo.fileno())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")


def wait_until_read(pipe: int) -> None:
    """Wait until the pipe is empty, so that its reader waits for more."""
    deadline = time.monotonic() + DEADLINE
    while struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]:
        assert time.monotonic() < deadline, "the pipe isn't read"
        time.sleep(0.01)
