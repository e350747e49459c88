"""A contender in a process of its own: what it prints, what it cost, and its end.

A contender prints lines; it ends when its standard input does, so that none outlives us. Decides nothing about what
is measured.
"""

from __future__ import annotations

import os
import queue
import resource
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_END_DEADLINE_S = 30.0


class ChildError(RuntimeError):
    """A contender failed, or said nothing in time. Holds the end of what it wrote to its standard error."""


@dataclass(frozen=True)
class Line:
    """What a child said; None when it has closed its output."""

    child: Child
    text: str | None


class Child:
    """Several may put their lines into one queue."""

    def __init__(self, command: Sequence[str | Path], lines: queue.Queue[Line] | None = None) -> None:
        self.lines: queue.Queue[Line] = queue.Queue() if lines is None else lines
        self.usage: resource.struct_rusage | None = None
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed by `end`
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float:
        """What it has used so far, by its own account. Only while it says nothing else."""
        return float(self.ask("", _END_DEADLINE_S))

    def ask(self, line: str, seconds: float) -> str:
        """Says this to it; the line that it answers with, in so much time."""
        self.tell(line)
        return self.hear(seconds)

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def hear(self, seconds: float) -> str:
        """The next line."""
        line = next_line(self.lines, time.monotonic() + seconds)
        if line.text is None:
            raise self.failure("ended early")
        return line.text

    def failure(self, what: str) -> ChildError:
        self._complaints.seek(0)
        tail = "\n".join(self._complaints.read().splitlines()[-25:])
        return ChildError(f"{' '.join(map(str, self._process.args))[-300:]} {what}\n{tail}")  # type: ignore[arg-type]

    def end(self) -> resource.struct_rusage:
        """Close its input and wait for it; gives what it used, threads and all."""
        if self.usage is None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            self.usage = self._reap()
            self._reader.join(_END_DEADLINE_S)
            self._process.stdout.close()
            self._complaints.close()
        return self.usage

    def _reap(self) -> resource.struct_rusage:
        killer = threading.Timer(_END_DEADLINE_S, self._process.kill)
        killer.start()
        _, status, usage = os.wait4(self._process.pid, 0)
        killer.cancel()
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return usage

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            self.lines.put(Line(self, text.rstrip("\n")))
        self.lines.put(Line(self, None))


@contextmanager
def children(commands: Sequence[Sequence[str | Path]]) -> Iterator[tuple[list[Child], queue.Queue[Line]]]:
    """Side by side, with one queue; all have ended when the block is left."""
    lines: queue.Queue[Line] = queue.Queue()
    running = []
    with ExitStack() as stack:
        for command in commands:
            child = Child(command, lines)
            stack.callback(child.end)
            running.append(child)
        yield running, lines


def next_line(lines: queue.Queue[Line], deadline: float) -> Line:
    """At the latest by `deadline` on the monotonic clock."""
    try:
        return lines.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        raise ChildError("no contender said anything in time") from None
