"""What of a dead-letter topic can't be read: one broken or oversized batch hides its own dead letters, no others."""

from __future__ import annotations

from kshare.errors import DecodeError, KshareError
from kshare.wording import counted, span

_NAMED = 10


class Unreadable:
    """Collects it while dead letters are read."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._more = 0

    def add(self, topic: str, partition: int, first: int, last: int, error: DecodeError) -> None:
        if len(self._texts) < _NAMED:
            where = f"{topic}[{partition}]: offsets {span(first, last)} can't be read"
            self._texts.append(f"{where}, and are left out: {error}")
        else:
            self._more += 1

    def add_topic(self, topic: str, error: KshareError) -> None:
        self._texts.append(f"the dead letters in {topic} can't be counted: {error}")

    @property
    def texts(self) -> list[str]:
        """Sentences without an end."""
        if not self._more:
            return self._texts
        more = counted(self._more, "further batch", "es")
        return [*self._texts, f"{more} can't be read"]
