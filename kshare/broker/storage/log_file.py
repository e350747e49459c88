"""The file of one partition's log: its batches in wire format, one after the other.

If the last write is incomplete, the file is truncated after the last whole batch with a correct checksum. Writes aren't
synced: they survive a crash of the broker, not one of the operating system.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kshare.broker.log import StoredBatch
from kshare.errors import CorruptBatchError
from kshare.protocol import record_header as header
from kshare.protocol.checksum import crc32c
from kshare.protocol.records import read_batches


class LogFile:
    """A log file. It is opened at the first write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self.size = 0

    def restore(self) -> Iterator[StoredBatch]:
        """The batches in the file. When the iteration ends, the file is truncated after the last valid batch."""
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        valid = 0
        try:
            for batch in read_batches(data):
                if crc32c(batch.view[header.CHECKSUM_BEHIND :]) != batch.checksum:
                    break
                yield StoredBatch.of(batch)
                valid += batch.size
        except CorruptBatchError:
            pass
        if valid < len(data):
            os.truncate(self.path, valid)
        self.size = valid

    def append(self, batch: StoredBatch) -> None:
        """Write a batch. After an OSError, nothing of it is in the file."""
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        view = memoryview(batch.data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            raise
        self.size += batch.size

    def rewrite(self, batches: Iterator[StoredBatch]) -> None:
        """Replace the file atomically with one that has only these batches."""
        self.close()
        new_path = self.path.with_suffix(".new")
        with new_path.open("wb") as out:
            for batch in batches:
                out.write(batch.data)
            self.size = out.tell()
        new_path.replace(self.path)

    def delete(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
