"""Runs `kshare` as people do: a call inside this process, a process of its own, or one on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
KSHARE = [sys.executable, "-W", "error", "-m", "kshare.cli"]
DEADLINE = 60
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str = ""


Kshare = Callable[..., Done]


def kshare(*arguments: str, stdin: bytes = b"", environment: dict[str, str] | None = None) -> Done:
    """In a process of its own, with pipes."""
    done = subprocess.run(
        [*KSHARE, *arguments],
        input=stdin,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        timeout=DEADLINE,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def on_terminal(*arguments: str, columns: int = 80, lines: int = 24) -> Done:
    """What a terminal of that size is sent, errors among it."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    process = subprocess.Popen(
        [*KSHARE, *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=ROOT,
        env={**environment, "TERM": "xterm-256color"},
    )
    os.close(slave)
    sent = bytearray()
    try:
        while chunk := _read(master):
            sent += chunk
        code = process.wait(DEADLINE)
    finally:
        process.kill()
        process.wait()
        os.close(master)
    return Done(code, sent.decode().replace("\r\n", "\n"))


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that the other side has gone
        return b""


def without_colours(text: str) -> str:
    return _ESCAPES.sub("", text)
