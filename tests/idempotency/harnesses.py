"""All stores, each with a clock that tests turn."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from redis import Redis

from kshare.idempotency import SQL_SCHEMA, IdempotencyStore, MemoryStore, SQLiteStore, SQLStore
from kshare.idempotency.redis import RedisStore

KINDS = ("memory", "sqlite", "sql")
"""The stores that need no server."""


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Harness(NamedTuple):
    store: IdempotencyStore
    advance: Callable[[float], None]


@contextmanager
def harness(kind: str, folder: Path) -> Iterator[Harness]:
    """A store of this kind, in a folder of its own."""
    clock = Clock()
    if kind == "memory":
        yield Harness(MemoryStore(clock=clock), clock.advance)
        return
    path = folder / "store.db"
    store = SQLiteStore(path, clock=clock) if kind == "sqlite" else through_dbapi(path, clock)
    yield Harness(store, clock.advance)
    store.close()


def through_dbapi(path: Path, clock: Callable[[], float] | str) -> SQLStore:
    """SQLite as any other database: with transactions, another paramstyle, and a table that the user created."""

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(path, timeout=10, check_same_thread=False)

    connection = connect()
    for statement in SQL_SCHEMA:
        connection.execute(statement)
    connection.close()
    return SQLStore(connect, paramstyle="named", clock=clock)


@contextmanager
def redis_harness(url: str) -> Iterator[Harness]:
    """Redis expires entries by its own clock. To advance it, all expirations are moved."""
    client = Redis.from_url(url)
    client.flushall()

    def advance(seconds: float) -> None:
        for key in client.scan_iter():
            client.pexpire(
                key, int(client.pttl(key) - seconds * 1000)
            )  # deletes the key if that is in the past

    store = RedisStore(url)
    yield Harness(store, advance)
    store.close()
    client.close()
