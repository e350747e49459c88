"""A contender in a separate process: reads its output and measures its resource usage.

A contender prints lines. It ends when its standard input is closed, so that none outlives this process.
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
    """A contender failed, or printed nothing in time. The message includes the end of its standard error."""


@dataclass(frozen=True)
class Line:
    """A line of a child's output; None when it has closed its output."""

    child: Child
    text: str | None


class Child:
    """A contender. Several may put their lines into one queue."""

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
        """The CPU time that it has used so far, as it reports itself. Only while it prints nothing else."""
        return float(self.ask("", _END_DEADLINE_S))

    def ask(self, line: str, seconds: float) -> str:
        """Send it a line, and return the line that it responds with. Raises ChildError after `seconds`."""
        self.tell(line)
        return self.hear(seconds)

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def hear(self, seconds: float) -> str:
        """The next line of its output."""
        return spoken(self.lines, time.monotonic() + seconds)[1]

    def failure(self, what: str) -> ChildError:
        self._complaints.seek(0)
        tail = "\n".join(self._complaints.read().splitlines()[-25:])
        return ChildError(f"{' '.join(map(str, self._process.args))[-300:]} {what}\n{tail}")  # type: ignore[arg-type]

    def end(self) -> resource.struct_rusage:
        """Close its input and wait for its end. Returns its resource usage, including all threads."""
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
    """Run contenders concurrently, with one queue. All have ended when the block is left."""
    lines: queue.Queue[Line] = queue.Queue()
    running = []
    with ExitStack() as stack:
        for command in commands:
            child = Child(command, lines)
            stack.callback(child.end)
            running.append(child)
        yield running, lines


def next_line(lines: queue.Queue[Line], deadline: float) -> Line:
    """The next line. Raises ChildError at `deadline`, a time of the monotonic clock."""
    try:
        return lines.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        raise ChildError("no contender printed anything in time") from None


def spoken(lines: queue.Queue[Line], deadline: float) -> tuple[Child, str]:
    """The next line of a contender that has more to say. Raises ChildError if it has ended."""
    line = next_line(lines, deadline)
    if line.text is None:
        raise line.child.failure("ended early")
    return line.child, line.text
