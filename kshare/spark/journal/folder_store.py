"""A journal in a local folder: for queries whose driver always runs on the same machine.

Each frame is a file, and its name is its number. A frame is written to a temporary file and then linked to its name,
which fails if the name exists: so of two writers, only one gets a number, and a frame is either complete or not there.
A driver that is started on another machine doesn't find the folder, and nobody else remembers what is in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from anyio import to_thread

from kshare.spark.journal.store import JournalError, JournalFenced

T = TypeVar("T")

_NAME = re.compile(r"(\d{20})\.frame")
_PARTIAL = ".partial"


class FolderStore:
    """`open` creates the folder if necessary."""

    def __init__(self, folder: Path) -> None:
        self.place = f"folder {folder}"
        self._folder = folder

    async def open(self) -> None:
        def create() -> None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left_over in self._folder.glob(f"*{_PARTIAL}"):
                left_over.unlink(missing_ok=True)

        await self._do("created", create)

    async def read(self, after: int = -1) -> list[tuple[int, bytes | None]]:
        def read() -> list[tuple[int, bytes | None]]:
            return [(number, path.read_bytes()) for number, path in self._frames() if number > after]

        return await self._do("read", read)

    async def claim(self) -> None:
        """Nothing to do: whoever writes the next frame is the only writer."""

    async def append(self, data: bytes, expected: int) -> int:
        number = expected + 1

        def write() -> None:
            partial = self._folder / f"{uuid4().hex}{_PARTIAL}"
            try:
                with partial.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(partial, self._path(number))
            finally:
                partial.unlink(missing_ok=True)
            self._sync()

        try:
            await self._do("written", write)
        except FileExistsError:
            raise JournalFenced(f"frame {number} in {self.place} was written by another runner") from None
        return number

    async def trim(self, before: int) -> None:
        def delete() -> None:
            for number, path in self._frames():
                if number < before:
                    path.unlink(missing_ok=True)

        await self._do("trimmed", delete)

    def _frames(self) -> list[tuple[int, Path]]:
        found = ((_NAME.fullmatch(path.name), path) for path in self._folder.iterdir())
        return sorted((int(match.group(1)), path) for match, path in found if match)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:020}.frame"

    def _sync(self) -> None:
        """Make the names durable, too."""
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    async def _do(self, action: str, function: Callable[[], T]) -> T:
        """Run it off the event loop."""
        try:
            return await to_thread.run_sync(function)
        except FileExistsError:
            raise
        except OSError as error:
            raise JournalError(
                f"the journal in {self.place} couldn't be {action}: {error.strerror or error}"
            ) from error
