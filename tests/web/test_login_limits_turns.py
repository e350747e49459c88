"""Whose password is checked next."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from kshare.web.login_limits import LoginTurns

pytestmark = pytest.mark.anyio


async def test_a_crowd_of_one_network_delays_others_by_one_check() -> None:
    turns, done = LoginTurns(), list[str]()
    may_check = anyio.Semaphore(0)

    async def log_in(address: str) -> None:
        async with turns.turn(address):
            await may_check.acquire()
            done.append(address)

    crowd = [f"2001:db8::{number:x}" for number in range(1, 51)]
    async with anyio.create_task_group() as tasks:
        for address in (*crowd, "192.0.2.1"):
            tasks.start_soon(log_in, address)
            await checkpoint()
        for _ in range(51):
            may_check.release()
    assert "192.0.2.1" in done[:2]
    assert sorted(done) == sorted([*crowd, "192.0.2.1"])
    assert len(turns) == 0


async def test_who_gives_up_waiting_leaves_nothing() -> None:
    turns = LoginTurns()

    async def wait(address: str) -> None:
        async with turns.turn(address):
            raise AssertionError("it isn't its turn")

    async with turns.turn("192.0.2.1"), anyio.create_task_group() as tasks:
        for address in ("192.0.2.1", "192.0.2.2"):
            tasks.start_soon(wait, address)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert len(turns) == 0
