"""Defects to plant where runners take over a journal: a search that doesn't find them is of no use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from tests.exhaustive.journal_log import JournalLog
from tests.exhaustive.takeover import Runner


def what_was_read_before_is_kept() -> Any:
    """Each reading continues where the last one ended. Found by a simulation, as it was so in the code."""
    real = Runner.read

    async def read(self: Runner, after: int = -1) -> list[tuple[int, bytes | None]]:
        if after >= 0:
            return await real(self, after)
        known: list[tuple[int, bytes | None]] = self.__dict__.setdefault("known_frames", [])
        known += await real(self, known[-1][0] if known else -1)
        return [*known]

    return patch.object(Runner, "read", read)


def fenced_runners_go_on() -> Any:
    """Somebody else has taken over, and what they accept is written nowhere."""
    real = JournalLog.append

    def append(self: JournalLog, writer: int, data: bytes) -> int:
        number = real(self, writer, data)
        return -1 if number is None else number

    return patch.object(JournalLog, "append", append)


DEFECTS: dict[Callable[[], Any], str] = {
    what_was_read_before_is_kept: "JournalDamaged",
    fenced_runners_go_on: "neither staged nor processed",
}
"""What each breaks, as the search says it."""
