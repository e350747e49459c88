"""A store in an SQLite file, which all processes of a machine may share."""

from __future__ import annotations

import functools
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any

from kshare.idempotency.sql import SQL_SCHEMA, ResultT, SQLStore

_PRIMARY_CODE = 0xFF
"""The part of SQLite's error codes that says what kind of error it is."""


class _Call(threading.local):
    """What the thread does: each call runs in one thread, from its beginning to its end."""

    deadline = 0.0
    """When it gives up waiting for the lock of the file, by the monotonic clock."""


class SQLiteStore(SQLStore):
    """Keeps claims and results in an SQLite file. Creates it if necessary.

    The file must be on a local disk: SQLite's write-ahead log doesn't work on network file systems. While another
    process has locked it, each claim, and each storing of a result, waits for up to ten seconds and then fails.
    """

    _connections_limit = 1  # SQLite has one writer at a time anyway
    _patience_s = 10.0
    """How long a call waits for a thread, the connection and the lock of the file, all in all."""

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        self._call = _Call()
        super().__init__(functools.partial(_open, path, self._call), paramstyle="qmark", clock=clock)

    def _attempt(self, deadline: float, action: Callable[..., ResultT], *arguments: Any) -> ResultT:
        self._call.deadline = deadline
        return super()._attempt(deadline, action, *arguments)

    def _changed_nothing(self, error: Exception) -> bool:
        """All actions end with their first change, so if it can't get the lock, there was none."""
        code = getattr(error, "sqlite_errorcode", None)
        return code is not None and code & _PRIMARY_CODE == sqlite3.SQLITE_BUSY


class _Connection(sqlite3.Connection):
    """All statements of a call have one deadline, however many of them wait for the lock."""

    call: _Call

    def cursor(self, factory: Any = sqlite3.Cursor) -> Any:
        left = max(0.0, self.call.deadline - time.monotonic())
        super().cursor().execute(f"PRAGMA busy_timeout = {int(left * 1000)}").close()
        return super().cursor(factory)


def _open(path: str | os.PathLike[str], call: _Call) -> sqlite3.Connection:
    # With isolation_level=None, each statement is a transaction that has the write lock from its start. None of them
    # can fail because another process wrote since it began to read.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=_Connection)
    connection.call = call
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        for statement in SQL_SCHEMA:
            connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection
