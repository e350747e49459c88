"""What is in the journal of a simulated query, as its format says: read from a topic's log, or from a folder.

Independent of kshare's code, so that it can be judged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.simulation.spark_history import History, Place

_HEADER = 8


@dataclass
class JournalWatch:
    """`look` often: frames are deleted once they are done."""

    frames: Callable[[int], Iterator[tuple[int, bytes]]]
    """Those after this number, in order."""
    history: History
    _last: int = -1
    _writer: str = ""
    _superseded: set[str] = field(default_factory=set)

    def look(self, now: float) -> None:
        for number, data in self.frames(self._last):
            self._last = number
            self._take(json.loads(data[_HEADER:]), now)

    def _take(self, frame: dict[str, Any], now: float) -> None:
        if frame["claim"]:
            if self._writer and self._writer != frame["writer"]:
                self._superseded.add(self._writer)
            self._writer = frame["writer"]
        elif frame["writer"] in self._superseded:
            self.history.note_broken("not fenced", f"frame at {now:.3f} of the runner {frame['writer']}")
            return
        for place in _places(frame["ranges"]):
            self.history.durable_at.setdefault(place, now)


def frames_in(folder: Path) -> Callable[[int], Iterator[tuple[int, bytes]]]:
    def frames(after: int) -> Iterator[tuple[int, bytes]]:
        for path in sorted(folder.glob("frames-*/*.frame"), key=lambda path: path.name):
            if int(path.stem) > after:
                yield int(path.stem), path.read_bytes()

    return frames


def _places(ranges: dict[str, dict[str, list[int]]]) -> Iterator[Place]:
    for partitions in ranges.values():
        for partition, numbers in partitions.items():
            for first, count in zip(numbers[::3], numbers[1::3], strict=True):
                yield from ((int(partition), offset) for offset in range(first, first + count))
