"""Runs `kshare` as people do: to its end, or with a reader who goes before. On terminals: `terminals`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]
_KAFKA_PYTHONS = [f"ignore:{name}_text is deprecated:DeprecationWarning" for name in ("open", "read")]
KSHARE = [
    *(sys.executable, "-W", "error", *(word for one in _KAFKA_PYTHONS for word in ("-W", one))),
    *("-m", "kshare.cli"),
]
"""As a process whose own warnings are errors, like those of the tests."""
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


def assert_refused(done: Done, code: int, reason: str) -> None:
    """It says why on a line, and nothing else."""
    assert (done.code, done.out) == (code, ""), done
    assert reason in done.err, done
    assert done.err.count("\n") == 1, done


class Piped:
    """A process of its own whose output is read a line at a time, by somebody who may go away."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [*KSHARE, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self._out = self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            self._process.kill()

    def line(self) -> bytes:
        return self._out.readline()

    def close(self) -> None:
        """Nobody reads any more."""
        self._out.close()

    def end(self) -> tuple[int, bytes]:
        """The exit code, and what it said of errors; fails when it doesn't end by itself."""
        code = self._process.wait(DEADLINE)
        assert self._process.stderr is not None
        return code, self._process.stderr.read()


def without_colours(text: str) -> str:
    return _ESCAPES.sub("", text)


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
