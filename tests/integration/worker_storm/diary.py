"""What a process of the storm writes down, line by line, so that nothing is missing when it is killed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


class Event(StrEnum):
    BEGAN = "began"
    SUCCEEDED = "succeeded"
    BURIED = "buried"
    """A function that keeps dead letters has kept it."""
    STALLED = "stalled"
    """The event loop stood still until now; `number` is for how many milliseconds."""
    COUNTED = "counted"
    """At the end of a process: `number` is how many handlers have failed, `attempt` how many were cancelled."""


class Entry(NamedTuple):
    event: Event
    at: float
    number: int
    attempt: int
    deliveries: int


class Diary:
    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write(self, event: Event, number: int, attempt: int = 0, deliveries: int = 0) -> None:
        os.write(self._file, f"{event} {time.time():.4f} {number} {attempt} {deliveries}\n".encode())

    def is_first_time(self, name: str) -> bool:
        """Whether no process of the storm has asked this before.

        Delivery counts don't tell: Kafka 4.1 counts no delivery that ended with its process.
        """
        try:
            (self._folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def read_diary(path: Path) -> Iterator[Entry]:
    for line in path.read_text(encoding="utf-8").splitlines():
        event, at, number, attempt, deliveries = line.split()
        yield Entry(Event(event), float(at), int(number), int(attempt), int(deliveries))
