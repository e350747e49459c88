"""A store in any SQL database, through a DB-API 2 driver.

Each step is one statement in a transaction of its own, and correct whatever happens in between. So the usual isolation
level of databases, read committed, is enough. The rules are those of `entry.py`.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kshare.errors import ConfigError, StoreFailed
from kshare.idempotency.connections import DBConnection, DBPool
from kshare.idempotency.store import CLAIMED, ClaimResponse, ClaimState
from kshare.idempotency.threads import in_store_thread

ResultT = TypeVar("ResultT")

SQL_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS kshare_idempotency (digest CHAR(64) PRIMARY KEY, owner CHAR(32) NOT NULL, "
    "expires DOUBLE PRECISION NOT NULL, result TEXT)",
    "CREATE INDEX IF NOT EXISTS kshare_idempotency_expires ON kshare_idempotency (expires)",
)
"""The table of a store. `result` is NULL while a call is in progress, and Base64 afterwards."""

_INSERT = "INSERT INTO kshare_idempotency (digest, owner, expires, result) VALUES (?, ?, ?, ?)"
_TAKE_OVER = (
    "UPDATE kshare_idempotency SET owner = ?, expires = ?, result = NULL "
    "WHERE digest = ? AND (expires <= ? OR (owner = ? AND result IS NULL))"
)
_SELECT = "SELECT expires, result FROM kshare_idempotency WHERE digest = ?"
_FINISH = (
    "UPDATE kshare_idempotency SET owner = ?, expires = ?, result = ? "
    "WHERE digest = ? AND (owner = ? OR expires <= ?)"
)
_ABANDON = "DELETE FROM kshare_idempotency WHERE digest = ? AND owner = ? AND result IS NULL"
_PURGE = "DELETE FROM kshare_idempotency WHERE expires <= ?"

Parameters = Sequence[object] | Mapping[str, object]
_MARKS = {"qmark": "?", "numeric": ":{}", "named": ":p{}", "format": "%s", "pyformat": "%(p{})s"}
"""How the parameter styles of DB-API mark a value."""
_ATTEMPTS = 10
"""A claim starts again if the entry was removed between two of its statements."""


class SQLStore:
    """Keeps claims and results in the table of SQL_SCHEMA, which you create.

    `connect` opens a connection that isn't in autocommit mode and may be used from any thread, one at a time; it must
    have deadlines for connecting and for statements. `paramstyle` is the driver's. `clock` is a function, or an SQL
    expression for the database's own time in seconds; with a function, the clocks of all machines must agree.
    """

    _connections_limit = 4
    _patience_s = 30.0
    """How long a call waits for a thread and a connection."""

    def __init__(
        self,
        connect: Callable[[], DBConnection],
        *,
        paramstyle: str,
        clock: Callable[[], float] | str = time.time,
    ) -> None:
        check_paramstyle(paramstyle)
        self._paramstyle = paramstyle
        self._clock = clock
        self._connections = DBPool(connect, self._connections_limit)

    async def claim(self, key: str, owner: str, seconds: float) -> ClaimResponse:
        return await self._run(_claim, key, owner, seconds)

    async def finish(self, key: str, owner: str, result: bytes, seconds: float) -> bool:
        return await self._run(_finish, key, owner, result, seconds)

    async def abandon(self, key: str, owner: str) -> None:
        await self._run(_abandon, key, owner)

    async def purge(self) -> int:
        return await self._run(_purge)

    def close(self) -> None:
        """Close the connections that aren't in use."""
        self._connections.close()

    async def _run(self, action: Callable[..., ResultT], *arguments: Any) -> ResultT:
        deadline = time.monotonic() + self._patience_s
        return await in_store_thread(self._attempt, deadline, action, *arguments)

    def _attempt(self, deadline: float, action: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """Run an action in the database. Raises StoreFailed for whatever the driver raises."""
        is_open = False
        try:
            with self._connections.borrowed(deadline) as connection:
                is_open = True
                return action(Statements(connection, self._paramstyle, self._clock), *arguments)
        except StoreFailed:
            raise
        except Exception as error:
            verb = action.__name__.removeprefix("_")
            raise StoreFailed(
                f"{type(self).__name__}: the database can't {verb} ({type(error).__name__}). Nothing counts as done; "
                "the exception below says why.",
                is_open=is_open and not self._changed_nothing(error),
            ) from error

    def _changed_nothing(self, error: Exception) -> bool:
        """Whether the error of a statement says that none was executed."""
        return False


class Statements:
    """Executes statements on one connection, each in a transaction of its own."""

    def __init__(self, connection: DBConnection, paramstyle: str, clock: Callable[[], float] | str) -> None:
        self._connection = connection
        self._paramstyle = paramstyle
        self._clock = clock

    def now(self) -> float:
        if callable(self._clock):
            return self._clock()
        return float(self.row(f"SELECT {self._clock}")[0])

    def change(self, statement: str, *values: object) -> int:
        """Returns how many rows it changed."""
        return self._execute(statement, values, fetches=False)[0]

    def row(self, statement: str, *values: object) -> Any:
        return self._execute(statement, values, fetches=True)[1]

    def insert(self, *values: object) -> bool:
        """Returns False if there is such a key."""
        try:
            self.change(_INSERT, *values)
        except Exception as error:
            # The classes differ from driver to driver, their names don't.
            if not any(kind.__name__ == "IntegrityError" for kind in type(error).__mro__):
                raise
            self._connection.rollback()
            return False
        return True

    def _execute(self, statement: str, values: Sequence[object], *, fetches: bool) -> tuple[int, Any]:
        cursor = self._connection.cursor()
        try:
            cursor.execute(*render(statement, values, self._paramstyle))
            found = cursor.fetchone() if fetches else None
            count = cursor.rowcount
        finally:
            cursor.close()
        self._connection.commit()
        return count, found


def _claim(database: Statements, key: str, owner: str, seconds: float) -> ClaimResponse:
    for _ in range(_ATTEMPTS):
        now = database.now()
        if database.insert(key, owner, now + seconds, None):
            return CLAIMED
        if database.change(_TAKE_OVER, owner, now + seconds, key, now, owner):
            return CLAIMED
        row = database.row(_SELECT, key)
        if row is not None and row[0] > now:
            if row[1] is not None:
                return ClaimResponse(ClaimState.DONE, result=base64.b64decode(row[1]))
            return ClaimResponse(ClaimState.IN_PROGRESS, expires_in=row[0] - now)
    raise StoreFailed(f"The key was claimed and abandoned {_ATTEMPTS} times by others during one claim.")


def _finish(database: Statements, key: str, owner: str, result: bytes, seconds: float) -> bool:
    now = database.now()
    text = base64.b64encode(result).decode()
    if database.change(_FINISH, owner, now + seconds, text, key, owner, now):
        return True
    return database.insert(key, owner, now + seconds, text)


def _abandon(database: Statements, key: str, owner: str) -> None:
    database.change(_ABANDON, key, owner)


def _purge(database: Statements) -> int:
    return database.change(_PURGE, database.now())


def render(statement: str, values: Sequence[object], paramstyle: str) -> tuple[str, Parameters]:
    """Replace the question marks of a statement, and arrange the values accordingly."""
    check_paramstyle(paramstyle)
    first, *rest = statement.split("?")
    marks = (_MARKS[paramstyle].format(number) for number in range(1, len(rest) + 1))
    text = first + "".join(mark + part for mark, part in zip(marks, rest, strict=True))
    if paramstyle in ("named", "pyformat"):
        return text, {f"p{number}": value for number, value in enumerate(values, 1)}
    return text, tuple(values)


def check_paramstyle(paramstyle: str) -> None:
    if paramstyle not in _MARKS:
        raise ConfigError(
            f"paramstyle={paramstyle!r} isn't one of DB-API's: {', '.join(_MARKS)}. Pass the driver's own: its module "
            "has an attribute paramstyle."
        )
