"""A journal in a local folder: for queries whose driver always runs on the same machine.

Each frame is a file, and its name is its number. A frame is written to a temporary file and then linked to its name, so
it is either complete or not there. All of them are in a subfolder, which a new runner renames: whatever an older runner
tries to write then, it no longer finds the folder.

A driver that is started on another machine doesn't find the journal, and nobody else remembers what is in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from time import sleep
from typing import TypeVar

from anyio import to_thread

from kshare.spark.journal.store import JournalError, JournalFenced
from kshare.surroundings import random_bytes

T = TypeVar("T")

_FRAMES = re.compile(r"frames-(\d+)(-[0-9a-f]+)?")
_NAME = re.compile(r"(\d{20})\.frame")
_PARTIAL = ".partial"
_LOCK = "lock"
_CLAIMS, _CLAIMED_S = 100, 0.1
"""How often to try to claim it while others do, and how long to wait in between."""
_TRIES = 10


class FolderStore:
    """`open` creates the folder if necessary."""

    def __init__(self, folder: Path) -> None:
        self.place = f"folder {folder}"
        self._folder = folder
        self._frames: Path | None = None
        """The subfolder, once it is ours."""

    async def open(self) -> None:
        await self._do("created", lambda: self._folder.mkdir(mode=0o700, parents=True, exist_ok=True))

    async def read(self, after: int = -1) -> list[tuple[int, bytes | None]]:
        def read() -> list[tuple[int, bytes | None]]:
            for tries_left in reversed(range(_TRIES)):
                is_last = not tries_left  # what is missing then is missing
                frames = self._frames or self._newest()
                with suppress(FileNotFoundError):  # a running query has deleted or renamed it meanwhile
                    found = [] if frames is None else _files(frames)
                    data = [(number, path.read_bytes()) for number, path in found if number > after]
                    # Large folders are listed in pieces: one that is just being written may lack a file in the middle.
                    if not data or data[-1][0] - data[0][0] < len(data) or is_last:
                        return [*data]
                if self._frames is not None and not self._frames.exists():
                    raise JournalFenced(f"{self._frames} was renamed")
            raise JournalError(
                f"the journal in {self.place} is trimmed faster than it can be read: try again"
            )

        return await self._do("read", read)

    async def claim(self) -> None:
        self._frames = await self._do("claimed", self._rename)

    async def append(self, data: bytes, expected: int) -> int:
        assert self._frames is not None, "claimed before"
        frames, number = self._frames, expected + 1

        def write() -> bool:
            partial = frames / f"{random_bytes(16).hex()}{_PARTIAL}"
            try:
                with partial.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(partial, frames / f"{number:020}.frame")
                sync_folder(frames)
            except FileNotFoundError:
                if self._newest() is None:
                    raise
                return False
            finally:
                partial.unlink(missing_ok=True)
            return True

        if not await self._do("written", write):
            raise JournalFenced(f"{frames} was renamed")
        return number

    async def trim(self, before: int) -> None:
        assert self._frames is not None, "claimed before"
        frames = self._frames

        def delete() -> None:
            for number, path in _files(frames):
                if number < before:
                    path.unlink(missing_ok=True)

        await self._do("trimmed", delete)

    def _newest(self) -> Path | None:
        found = ((_FRAMES.fullmatch(path.name), path) for path in self._folder.iterdir())
        return max(((int(match.group(1)), path) for match, path in found if match), default=(0, None))[1]

    def _rename(self) -> Path:
        """Give the subfolder its next name, or create the first one.

        One runner at a time: one that created the first name late, after others have gone on, would use it again.
        """
        with self._alone():
            newest = self._newest()
            number = 0 if newest is None else int(newest.name.split("-")[1])
            # Random, because names begin again if the folder is deleted while an older runner goes on.
            ours = self._folder / f"frames-{number + 1}-{random_bytes(8).hex()}"
            if newest is None:
                ours.mkdir(mode=0o700)
            else:
                newest.rename(ours)
            sync_folder(self._folder)
            for left_over in ours.glob(f"*{_PARTIAL}"):
                left_over.unlink(missing_ok=True)
            return ours

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (self._folder / _LOCK).open("w") as lock:
            for _ in range(_CLAIMS):
                with suppress(BlockingIOError):
                    flock(lock, LOCK_EX | LOCK_NB)
                    break
                sleep(_CLAIMED_S)
            else:
                raise JournalError(
                    f"another runner has been claiming the journal in {self.place} for long: stop it"
                )
            yield

    async def _do(self, action: str, function: Callable[[], T]) -> T:
        """Run it off the event loop."""
        try:
            return await to_thread.run_sync(function)
        except OSError as error:
            raise JournalError(
                f"the journal in {self.place} couldn't be {action}: {error.strerror or error}"
            ) from error


def _files(folder: Path) -> list[tuple[int, Path]]:
    found = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match.group(1)), path) for match, path in found if match)


def sync_folder(folder: Path) -> None:
    """Make the names in it durable, too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
