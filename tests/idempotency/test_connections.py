"""DBPool that threads share: how many are opened, which are kept, and what a forked process does."""

from __future__ import annotations

import os
import time
from typing import cast

import pytest

from kshare.errors import StoreFailed
from kshare.idempotency.connections import DBConnection, DBPool


def soon() -> float:
    return time.monotonic() + 30


class FakeConnection:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Opened:
    def __init__(self) -> None:
        self.all: list[FakeConnection] = []

    def __call__(self) -> DBConnection:
        self.all.append(FakeConnection())
        return cast("DBConnection", self.all[-1])


@pytest.fixture
def opened() -> Opened:
    return Opened()


def test_a_connection_is_used_again(opened: Opened) -> None:
    connections = DBPool(opened, 2)
    for _ in range(3):
        with connections.borrowed(soon()):
            pass
    assert len(opened.all) == 1
    connections.close()
    assert opened.all[0].is_closed


def test_a_connection_isnt_used_again_after_an_error(opened: Opened) -> None:
    connections = DBPool(opened, 1)
    with pytest.raises(KeyError), connections.borrowed(soon()):
        raise KeyError
    with connections.borrowed(soon()):
        pass
    assert [connection.is_closed for connection in opened.all] == [True, False]


def test_waiting_for_a_connection_has_a_deadline(opened: Opened) -> None:
    connections = DBPool(opened, 1)
    with (
        connections.borrowed(soon()),
        pytest.raises(StoreFailed, match=r"use all its connections \(1\)") as caught,
    ):
        connections.borrowed(time.monotonic() - 5).__enter__()
    assert not caught.value.is_open


def test_a_forked_process_opens_its_own_and_leaves_its_parents_open(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = DBPool(opened, 1)
    with connections.borrowed(soon()):
        pass
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for _ in range(2):
        with connections.borrowed(soon()):
            pass
    connections.close()
    assert [connection.is_closed for connection in opened.all] == [False, True]
