"""Ensures that one query at a time uses a checkpoint, among those on this machine.

Queries with the same checkpoint have the same member id. Brokers would let each take the other's place in the group,
again and again, and both would believe that the other's records are theirs.

The lock is a file that the kernel unlocks when the process ends, however it does. Queries on different machines aren't
noticed here: Spark notices them when they write the same batch into the checkpoint.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

import anyio

from kshare.errors import KshareError

_PATIENCE_S = 20.0
"""A query that was stopped just now may still be leaving its group."""
_POLL_S = 0.1


class CheckpointInUse(KshareError):
    """Another running query has the same checkpoint."""


class CheckpointLock:
    """Locks the checkpoint whose tokens have this member id."""

    def __init__(self, folder: Path, member_id: str) -> None:
        self._path = folder / f"{member_id}.lock"
        self._file: int | None = None

    async def acquire(self, group: str) -> None:
        """Raise CheckpointInUse if another process keeps the lock for longer than a query takes to stop."""
        deadline = anyio.current_time() + _PATIENCE_S
        while not self.try_acquire():
            if anyio.current_time() >= deadline:
                raise CheckpointInUse(
                    f"another query of group {group} is running with the same checkpoint on this machine (its runner "
                    f"is process {self._owner()}): stop it, or give this query a checkpointLocation "
                    "and an output path of its own"
                )
            await anyio.sleep(_POLL_S)

    def try_acquire(self) -> bool:
        """Lock the checkpoint if nobody has; returns whether it is locked for us."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its owner may have removed the file since it was opened here: another process has a new one then.
            if os.path.samestat(os.fstat(file), self._path.stat()):
                os.pwrite(file, str(os.getpid()).encode(), 0)
                self._file = file
                return True
        os.close(file)
        return False

    def release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            self._path.unlink(missing_ok=True)
            os.close(file)

    def _owner(self) -> str:
        with suppress(OSError):
            return self._path.read_text(encoding="ascii")
        return "unknown"
