"""A store in an SQLite file, which all processes of a machine may share."""

from __future__ import annotations

import functools
import os
import sqlite3
import time
from collections.abc import Callable

from kshare.idempotency.sql import SQL_SCHEMA, SQLStore

_BUSY_S = 10.0


class SQLiteStore(SQLStore):
    """Keeps claims and results in an SQLite file. Creates it if necessary.

    The file must be on a local disk: SQLite's write-ahead log doesn't work on network file systems.
    """

    _connections_limit = 1  # SQLite has one writer at a time anyway

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(functools.partial(_open, path), paramstyle="qmark", clock=clock)


def _open(path: str | os.PathLike[str]) -> sqlite3.Connection:
    # With isolation_level=None, each statement is a transaction that has the write lock from its start. None of them
    # can fail because another process wrote since it began to read.
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        for statement in SQL_SCHEMA:
            connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection
