"""What all Python contenders have in common: their command line, output, end and figures."""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

_GRACE_S = 20.0
Given = Mapping[str, str]
"""The arguments of a contender, which have the form `key=value`."""


def main(*programs: Callable[[Given], object]) -> None:
    """Run the function that the first word of the command line names, with the other words as its arguments."""
    name, *words = sys.argv[1:]
    program = {function.__name__: function for function in programs}[name]
    given = dict(word.split("=", 1) for word in words)
    if inspect.iscoroutinefunction(program):
        import anyio  # those that block don't need it

        anyio.run(program, given)
    else:
        program(given)


def reading_options(given: Given) -> dict[str, Any]:
    """The options of our consumers for reading in one of several ways."""
    options: dict[str, Any] = {"max_records": int(given["max_records"])} if "max_records" in given else {}
    return options | ({"acknowledgement": "explicit"} if given["way"] == "explicit" else {})


def say(line: str) -> None:
    """Print a line immediately and in one piece, since the parent waits for it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def end_of_input() -> threading.Event:
    """An event that is set when the parent closes our standard input, or has ended. 20 s later, the process is killed.

    In response to a line of input, this prints the CPU time of this process in seconds, including all threads.
    """
    ended = threading.Event()

    def listen() -> None:
        for _ in sys.stdin:
            say(f"{time.process_time():.6f}")
        ended.set()
        time.sleep(_GRACE_S)
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    return ended


class Meter:
    """The figures of every reader: the time from its first record to its last, its CPU, and when the first one came.

    Create it together with the consumer, since it measures the time until the first record.
    """

    def __init__(self) -> None:
        self._made = time.perf_counter()
        self._first: float | None = None
        self._cpu = 0.0

    def on_records(self) -> None:
        """Call this whenever records have arrived, before they are accessed."""
        if self._first is None:
            self._first = time.perf_counter()
            self._cpu = time.process_time()

    def report(self, records: int) -> None:
        """Print the figures as one line, for `tools.benches.readers`."""
        assert self._first is not None
        seconds, cpu = time.perf_counter() - self._first, time.process_time() - self._cpu
        first = self._first - self._made
        say(json.dumps({"records": records, "seconds": seconds, "cpu": cpu, "first": first}))


class Delays:
    """Seconds until a client has each record, and until it knows that the acknowledgement is confirmed."""

    def __init__(self, given: Given) -> None:
        self.is_explicit = given["mode"] == "explicit"
        self.hand: list[float] = []
        self._acknowledged: list[float] = []
        self._records = int(given["records"])

    @property
    def is_complete(self) -> bool:
        return len(self.hand) >= self._records

    def on_committed(self, received: float, errors: Mapping[Any, object]) -> None:
        """All records in hand are acknowledged; the last of them were received then."""
        if any(errors.values()):
            raise RuntimeError(f"refused: {errors}")
        self._acknowledged += [time.monotonic() - received] * (len(self.hand) - len(self._acknowledged))

    def report(self) -> None:
        say(json.dumps([self.hand, self._acknowledged]))


def handled(number: bytes, started: float) -> None:
    """Say that the handler of a record has ended, for `tools.benches.sharing`."""
    say(f"{int(number)} {started:.6f} {time.monotonic():.6f}")
