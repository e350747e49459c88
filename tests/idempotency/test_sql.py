"""Stores through DB-API: connections that break, drivers that misbehave, the database's own clock, and statements."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from kshare.errors import ConfigError, StoreFailed
from kshare.idempotency import ClaimState, SQLStore
from kshare.idempotency.sql import render
from kshare.idempotency.store import CLAIMED
from tests.idempotency.harnesses import Clock, through_dbapi

pytestmark = pytest.mark.anyio

KEY, ANNE, BERT = "0" * 64, "a" * 32, "b" * 32


class Breaking:
    """A connection of SQLite that breaks at a certain commit or statement."""

    def __init__(self, path: Path, break_at: list[str]) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._break_at = break_at
        self.rollback = self._connection.rollback
        self.close = self._connection.close

    def cursor(self) -> sqlite3.Cursor:
        self._break("statement")
        return self._connection.cursor()

    def commit(self) -> None:
        self._break("commit")
        self._connection.commit()
        self._break("answer")

    def _break(self, where: str) -> None:
        if self._break_at == [where]:
            self._break_at.clear()
            raise sqlite3.OperationalError("the server has gone away with your data")


@pytest.mark.lengthy
@pytest.mark.parametrize("where", ["statement", "commit", "answer"])
@pytest.mark.parametrize("step", ["claim", "finish"])
async def test_a_broken_connection_is_replaced(tmp_path: Path, step: str, where: str) -> None:
    path = tmp_path / "store.db"
    through_dbapi(path, Clock()).close()
    break_at: list[str] = []
    store = SQLStore(lambda: Breaking(path, break_at), paramstyle="qmark", clock=Clock())
    if step == "finish":
        await store.claim(KEY, ANNE, 60)
    break_at.append(where)
    failing = store.claim(KEY, ANNE, 60) if step == "claim" else store.finish(KEY, ANNE, b"1", 60)
    with pytest.raises(StoreFailed, match=rf"the database can't {step} \(OperationalError\)") as caught:
        await failing
    assert "your data" not in str(caught.value)
    await store.abandon(KEY, ANNE)
    response = await store.claim(KEY, BERT, 60)
    is_stored = (step, where) == ("finish", "answer")
    assert response.state is (ClaimState.DONE if is_stored else ClaimState.CLAIMED)
    store.close()


async def test_the_databases_own_clock(tmp_path: Path) -> None:
    times = sqlite3.connect(tmp_path / "times.db", isolation_level=None)
    times.execute("CREATE TABLE clock (now REAL)")
    times.execute("INSERT INTO clock VALUES (1000.0)")
    store = through_dbapi(tmp_path / "times.db", "now FROM clock")
    assert await store.claim(KEY, ANNE, 60) == CLAIMED
    assert (await store.claim(KEY, BERT, 60)).expires_in == 60
    times.execute("UPDATE clock SET now = 1061.0")
    assert await store.claim(KEY, BERT, 60) == CLAIMED
    store.close()
    times.close()


@pytest.mark.lengthy
async def test_at_most_four_connections(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    through_dbapi(path, Clock()).close()
    opened: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        opened.append(sqlite3.connect(path, timeout=10, check_same_thread=False))
        return opened[-1]

    store = SQLStore(connect, paramstyle="qmark", clock=Clock())
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(store.claim, f"{number:064}", ANNE, 60)
    store.close()
    assert 1 <= len(opened) <= 4


async def test_an_unknown_paramstyle_is_refused() -> None:
    with pytest.raises(ConfigError, match="paramstyle"):
        SQLStore(sqlite3.connect, paramstyle="%s")  # type: ignore[arg-type]


async def test_a_key_that_others_keep_abandoning_is_an_error(tmp_path: Path) -> None:
    """Whenever the store looks, another has the key, and abandons it before the next look."""

    class Elusive(sqlite3.IntegrityError):
        pass

    class Cursor(SimpleNamespace):
        rowcount = 0

        def execute(self, statement: str, parameters: Any) -> None:
            if statement.startswith("INSERT"):
                raise Elusive

        def fetchone(self) -> None: ...

        def close(self) -> None: ...

    connection: Any = SimpleNamespace(
        cursor=Cursor, commit=lambda: None, rollback=lambda: None, close=lambda: None
    )
    with pytest.raises(StoreFailed, match="claimed and abandoned 10 times"):
        await SQLStore(lambda: connection, paramstyle="qmark").claim(KEY, ANNE, 60)


@pytest.mark.parametrize(
    ("paramstyle", "expected"),
    [
        ("qmark", ("a = ? AND b = ?", (1, 2))),
        ("numeric", ("a = :1 AND b = :2", (1, 2))),
        ("named", ("a = :p1 AND b = :p2", {"p1": 1, "p2": 2})),
        ("format", ("a = %s AND b = %s", (1, 2))),
        ("pyformat", ("a = %(p1)s AND b = %(p2)s", {"p1": 1, "p2": 2})),
    ],
)
def test_all_styles(paramstyle: str, expected: object) -> None:
    assert render("a = ? AND b = ?", [1, 2], paramstyle) == expected


def test_statements_without_parameters_stay_the_same() -> None:
    assert render("SELECT 1", [], "format") == ("SELECT 1", ())


def test_unknown_styles_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"paramstyle='dollar'.*qmark, numeric, named, format, pyformat"):
        render("SELECT 1", [], "dollar")
