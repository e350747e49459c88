"""Where a journal is kept: what a store has to be able to do, and the errors that it raises."""

from __future__ import annotations

from typing import Protocol

from kshare.errors import KshareError


class JournalError(KshareError):
    """The journal can't be used: the message says why, and what to do. Nothing was accepted that isn't in it."""


class JournalFenced(JournalError):
    """Another runner has taken over the journal. This one mustn't go on."""


class JournalStore(Protocol):
    """Numbered frames. Their numbers ascend, but needn't be consecutive."""

    @property
    def place(self) -> str:
        """Its name, as in `topic orders-journal`: for messages, and to recognize it in the checkpoint."""
        ...

    async def read(self, after: int = -1) -> list[tuple[int, bytes | None]]:
        """All frames after this number."""
        ...

    async def claim(self) -> None:
        """Become the only writer, from the next append on at the latest."""
        ...

    async def append(self, data: bytes, expected: int) -> int:
        """Write a frame; it is durable when this returns. Returns its number.

        `expected`: the number of the last frame that the caller knows. Raises
        JournalFenced if this store can no longer write since another one claimed it.
        """
        ...

    async def trim(self, before: int) -> None:
        """Delete the frames before this number. They are no longer needed."""
        ...


def return_command(place: str) -> str:
    """The command that writes what is staged in this place to its topics again."""
    kind, _, name = place.partition(" ")
    return f"kshare spark journal return {name if kind == 'topic' else f'--folder {name}'}"
