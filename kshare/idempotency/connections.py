"""A few DB-API connections that threads share: opened on demand, and thrown away after an error."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from kshare.errors import StoreFailed


class DBCursor(Protocol):
    """What is used of a DB-API cursor."""

    @property
    def rowcount(self) -> int: ...

    def execute(self, statement: str, parameters: Any, /) -> object: ...

    def fetchone(self) -> Any: ...

    def close(self) -> object: ...


class DBConnection(Protocol):
    """What is used of a DB-API connection."""

    def cursor(self) -> DBCursor: ...

    def commit(self) -> object: ...

    def rollback(self) -> object: ...

    def close(self) -> object: ...


class DBPool:
    """Up to `limit` connections. One that was opened before a fork isn't used by the child."""

    def __init__(self, connect: Callable[[], DBConnection], limit: int) -> None:
        self._connect = connect
        self._limit = limit
        self._inherited: list[DBConnection] = []
        """The parent's, if this process was forked. Closing them would end the parent's sessions."""
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._free = threading.BoundedSemaphore(self._limit)
        self._idle: list[DBConnection] = []

    @contextlib.contextmanager
    def borrowed(self, deadline: float) -> Iterator[DBConnection]:
        """A connection for one call. After an error it is closed, because its state is unknown.

        If none is free until the deadline, by the monotonic clock, this raises StoreFailed.
        """
        if self._process != os.getpid():
            self._inherited += self._idle
            self._start()
        free = self._free
        if not free.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise StoreFailed(
                "The store has done nothing, because other calls use all its connections "
                f"({self._limit}): is the database slow, or locked?",
                is_open=False,
            )
        try:
            connection = self._idle.pop() if self._idle else self._connect()
            try:
                yield connection
            except BaseException:
                with contextlib.suppress(Exception):
                    connection.close()
                raise
            self._idle.append(connection)
        finally:
            free.release()

    def close(self) -> None:
        """Close the connections that aren't in use."""
        while self._idle:
            self._idle.pop().close()
