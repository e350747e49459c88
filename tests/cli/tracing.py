"""`kshare trace` in its own process: its address, and its output once it has ended."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.prepared import Prepared
from tests.cli.running import DEADLINE


class Trace:
    """A process with --json. `events` are available when it has ended."""

    def __init__(self, bootstrap: str, folder: Path, *arguments: str) -> None:
        self.capture = folder / "capture.pcapng"
        self.events: list[Any] = []
        self._out, self._err = folder / "trace.out", folder / "trace.err"
        options = ("--listen", "127.0.0.1:0", "--json", "--write", str(self.capture), "-b", bootstrap)
        with Path(os.devnull).open("rb") as nothing, self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = Prepared(
                ("trace", *options, *arguments), (nothing.fileno(), out.fileno(), err.fileno())
            )

    def wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + DEADLINE
        while "\n" not in self._out.read_text():
            assert self._process.poll() is None, self.errors
            assert time.monotonic() < deadline, "kshare trace doesn't listen"
            time.sleep(0.02)

    @property
    def address(self) -> str:
        """The bootstrap address for clients."""
        with self._out.open() as out:
            address: str = json.loads(out.readline())["address"]
        return address

    @property
    def errors(self) -> str:
        return self._err.read_text()

    def end(self, how: signal.Signals = signal.SIGINT) -> int:
        """End the process; returns its exit code."""
        self._process.send_signal(how)
        code = self._process.wait(DEADLINE)
        self.events = [json.loads(line) for line in self._out.read_text().splitlines()]
        return code

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(DEADLINE)

    def of_type(self, kind: str) -> list[Any]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def summary(self) -> Any:
        (event,) = self.of_type("summary")
        return event

    @property
    def rules(self) -> set[str]:
        return {event["rule"] for event in self.of_type("finding")}


@contextmanager
def tracing(bootstrap: str, folder: Path, *arguments: str) -> Iterator[Trace]:
    """A trace that the test ends; if it doesn't, the process is killed."""
    trace = Trace(bootstrap, folder, *arguments)
    try:
        trace.wait_until_it_listens()
        yield trace
    finally:
        trace.kill()
