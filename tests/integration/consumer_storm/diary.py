"""What the programs of the storm write down, line by line, so that nothing is missing when one is killed.

A line is written before what it says takes effect at the consumer, except for RELEASED, which is written afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from kshare.surroundings import monotonic


class Event(StrEnum):
    HANDED = "handed"
    """The program has got this record. The text is its value."""
    UNREADABLE = "unreadable"
    """The program has got an exception of its deserializer instead."""
    ENDED = "ended"
    """The body of an implicit loop has ended normally. The program asks for the next record."""
    ABANDONED = "abandoned"
    """An implicit loop was left while it was processing this record."""
    ACCEPTS = "accepts"
    REJECTS = "rejects"
    RELEASED = "released"
    TOO_LATE = "too-late"
    """`accept` raised AcknowledgeError, for this record or for others of its batch."""
    CONFIRMED = "confirmed"
    """`on_settled` said that this was accepted."""
    REFUSED = "refused"
    """`on_settled` had an error for accepting this: it was refused, or its outcome is open."""
    COMMITS = "commits"
    """`commit` is called now."""
    COMMITTED = "committed"
    """`commit` has returned. The text has the partitions that it had errors for."""
    DID = "did"
    """The text is what. No record."""
    NOTICED = "noticed"
    """The text is an event of the consumer. No record."""


class Entry(NamedTuple):
    at: float
    event: Event
    member: str
    partition: int
    offset: int
    delivery: int
    """The record's delivery count."""
    text: str


class Diary:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write(
        self, event: Event, member: str, place: tuple[int, int] = (-1, -1), delivery: int = 0, text: str = ""
    ) -> None:
        line = f"{monotonic():.6f} {event} {member or '-'} {place[0]} {place[1]} {delivery} {text}\n"
        os.write(self._file, line.encode())


def read_diary(path: Path) -> Iterator[Entry]:
    *whole, _ = path.read_text(encoding="utf-8").split("\n")
    for line in whole:
        at, event, member, partition, offset, delivery, *text = line.split(" ", 6)
        yield Entry(
            float(at), Event(event), member, int(partition), int(offset), int(delivery), "".join(text)
        )
