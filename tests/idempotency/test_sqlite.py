"""The SQLite store among processes, of which some are killed."""

from __future__ import annotations

import multiprocessing
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kshare.errors import InProgress, StoreFailed
from kshare.idempotency import SQLiteStore, idempotent
from tests.idempotency.harnesses import Clock

ROOT = Path(__file__).parents[2]
RECORD = SimpleNamespace(topic="orders", partition=3, offset=17)
PROGRAM = """
import os, signal, sys
from types import SimpleNamespace
from kshare.idempotency import SQLiteStore, idempotent

path, effects, dies = sys.argv[1:]
store = SQLiteStore(path, clock=lambda: 1000.0)

@idempotent(store, name="charge", in_progress_timeout=60, wait=0)
def charge(record):
    with open(effects, "a") as file:
        file.write("x")
    if dies == "while it runs":
        os.kill(os.getpid(), signal.SIGKILL)
    return "charged"

charge(SimpleNamespace(topic="orders", partition=3, offset=17))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "store.db", clock=clock)
    yield store
    store.close()


def run_and_die(folder: Path, dies: str) -> None:
    command = [sys.executable, "-c", PROGRAM, str(folder / "store.db"), str(folder / "effects"), dies]
    done = subprocess.run(command, cwd=ROOT, timeout=60, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.lengthy
def test_a_claim_of_a_killed_process_expires(tmp_path: Path, store: SQLiteStore, clock: Clock) -> None:
    @idempotent(store, name="charge", in_progress_timeout=60)
    def charge(record: Any) -> str:
        return "charged again"

    run_and_die(tmp_path, "while it runs")
    with pytest.raises(InProgress) as caught:
        charge(RECORD)
    assert caught.value.retry_after == 60
    clock.advance(61)
    assert charge(RECORD) == "charged again"


@pytest.mark.lengthy
def test_a_result_of_a_killed_process_counts(tmp_path: Path, store: SQLiteStore) -> None:
    @idempotent(store, name="charge")
    def charge(record: Any) -> str:
        raise AssertionError("it must not run")

    run_and_die(tmp_path, "afterwards")
    assert charge(RECORD) == "charged"
    assert (tmp_path / "effects").read_text() == "x"


def _charge_all(path: Path, effects: Path) -> None:
    store = SQLiteStore(path)

    @idempotent(store, name="charge", key=str, wait=60)
    def charge(order: int) -> None:
        with effects.open("a", encoding="utf-8") as file:
            file.write(f"{order}\n")

    for order in range(30):
        charge(order)
    store.close()


@pytest.mark.lengthy
def test_processes_that_compete_run_each_call_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    arguments = (tmp_path / "store.db", tmp_path / "effects")
    processes = [context.Process(target=_charge_all, args=arguments) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    effects = (tmp_path / "effects").read_text().splitlines()
    assert sorted(map(int, effects)) == list(range(30))


def test_a_file_that_cant_be_opened_is_explained(tmp_path: Path) -> None:
    @idempotent(SQLiteStore(tmp_path / "missing" / "store.db"))
    def charge(record: Any) -> None:
        raise AssertionError("it must not run")

    with pytest.raises(
        StoreFailed, match=r"SQLiteStore: the database can't claim \(OperationalError\)"
    ) as caught:
        charge(RECORD)
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
