"""Runs `kshare` as people do: to its end, or with a reader who goes before. On terminals: `terminals`."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.cli.prepared import PYTHON, Prepared

ROOT = Path(__file__).parents[2]
KSHARE = [*PYTHON, "-m", "kshare.cli"]
"""A process from nothing. It takes most of a second to start: `kshare` and `Piped` fork one that has started."""
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
    (stdin_read, stdin_write), (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe(), os.pipe()
    try:
        process = Prepared(
            arguments, (stdin_read, out_write, err_write), {**os.environ, **(environment or {})}
        )
    finally:
        for descriptor in (stdin_read, out_write, err_write):
            os.close(descriptor)
    # Each in a thread, for pipes hold a few pages only.
    with ThreadPoolExecutor(3) as pool:
        pool.submit(_write, stdin_write, stdin)
        out, err = pool.submit(_read, out_read), pool.submit(_read, err_read)
        try:
            code = process.wait(DEADLINE)
        finally:
            process.kill()
    return Done(code, out.result().decode(), err.result().decode())


def _write(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as pipe:
        pipe.write(data)


def _read(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as pipe:
        return pipe.read()


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Code in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


def assert_refused(done: Done, code: int, reason: str) -> None:
    """It says why on a line, and nothing else."""
    assert (done.code, done.out) == (code, ""), done
    assert reason in done.err, done
    assert done.err.count("\n") == 1, done


class Piped:
    """A process of its own whose output is read a line at a time, by somebody who may go away."""

    def __init__(self, *arguments: str) -> None:
        (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe()
        self._out: IO[bytes] = os.fdopen(out_read, "rb")
        self._err: IO[bytes] = os.fdopen(err_read, "rb")
        with (
            Path(os.devnull).open("rb") as nothing,
            os.fdopen(out_write, "wb") as out,
            os.fdopen(err_write, "wb") as err,
        ):
            self._process = Prepared(arguments, (nothing.fileno(), out.fileno(), err.fileno()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(DEADLINE)
        self._out.close()
        self._err.close()

    def line(self) -> bytes:
        return self._out.readline()

    def close(self) -> None:
        """Nobody reads any more."""
        self._out.close()

    def end(self) -> tuple[int, bytes]:
        """The exit code, and what it said of errors; fails when it doesn't end by itself."""
        code = self._process.wait(DEADLINE)
        return code, self._err.read()


def without_colours(text: str) -> str:
    return _ESCAPES.sub("", text)
