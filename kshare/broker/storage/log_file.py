"""The file of one partition's log: its batches in wire format, one after the other.

Decides where a file that was cut in the middle of a write ends: behind the last whole batch whose checksum is right.
The operating system is trusted to keep what was written; only its own end could lose it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kshare.broker.log import StoredBatch
from kshare.errors import CorruptBatchError
from kshare.protocol import record_header as header
from kshare.protocol.checksum import crc32c
from kshare.protocol.records import Batch, read_batches


class LogFile:
    """Opened when it is first written to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self.size = 0

    def restore(self) -> Iterator[StoredBatch]:
        """What the file holds. What is behind the last good batch is cut off when the iteration ends."""
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        good = 0
        try:
            for batch in read_batches(data):
                if crc32c(batch.view[header.CHECKSUM_BEHIND :]) != batch.checksum:
                    break
                yield stored_batch(batch)
                good += batch.size
        except CorruptBatchError:
            pass
        if good < len(data):
            os.truncate(self.path, good)
        self.size = good

    def append(self, batch: StoredBatch) -> None:
        """All of the batch is in the file afterwards, or, after an OSError, nothing of it."""
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
        """Leaves only these batches: written beside it and put in its place."""
        self.close()
        beside = self.path.with_suffix(".new")
        with beside.open("wb") as out:
            for batch in batches:
                out.write(batch.data)
            self.size = out.tell()
        beside.replace(self.path)

    def delete(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def stored_batch(batch: Batch) -> StoredBatch:
    """A batch read back, as the log keeps it."""
    return StoredBatch(
        batch.base_offset,
        batch.last_offset,
        batch.leader_epoch,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.is_transactional,
        batch.is_control,
        bytes(batch.view),
    )
