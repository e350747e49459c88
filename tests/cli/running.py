"""Runs `kshare` to its end, or with a reader that may close the pipe early. For terminals, see `terminals`."""

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
"""Starts a new interpreter, which takes most of a second. `kshare` and `Piped` fork a prepared one."""
DEADLINE = 60
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str = ""


Kshare = Callable[..., Done]


def kshare(*arguments: str, stdin: bytes = b"", environment: dict[str, str] | None = None) -> Done:
    """Run a command in its own process, with pipes."""
    (stdin_read, stdin_write), (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe(), os.pipe()
    try:
        process = Prepared(
            arguments, (stdin_read, out_write, err_write), {**os.environ, **(environment or {})}
        )
    finally:
        for descriptor in (stdin_read, out_write, err_write):
            os.close(descriptor)
    # In threads, because pipes hold only a few pages.
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
    """Run code in a new interpreter."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


def assert_refused(done: Done, code: int, reason: str) -> None:
    """The command printed the reason on one line, and nothing else."""
    assert (done.code, done.out) == (code, ""), done
    assert reason in done.err, done
    assert done.err.count("\n") == 1, done


class Piped:
    """A process whose output is read line by line, and whose pipe may be closed early."""

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
        """Close the reading end."""
        self._out.close()

    def end(self) -> tuple[int, bytes]:
        """The exit code and standard error. Fails if the process doesn't end."""
        code = self._process.wait(DEADLINE)
        return code, self._err.read()


def without_colours(text: str) -> str:
    return _ESCAPES.sub("", text)
