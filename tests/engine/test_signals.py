"""Signals: all current waiters are woken, later ones aren't."""

from __future__ import annotations

import anyio
import pytest

from kshare.engine.signals import Signal

pytestmark = pytest.mark.anyio


async def test_all_current_waiters_are_woken_and_later_ones_are_not() -> None:
    signal, woken = Signal(), list[int]()

    async def wait(number: int) -> None:
        await signal.wait()
        woken.append(number)

    signal.send()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, 1)
        tasks.start_soon(wait, 2)
        await anyio.wait_all_tasks_blocked()
        assert not woken, "earlier signals must not wake it"
        signal.send()
        tasks.start_soon(wait, 3)
        await anyio.wait_all_tasks_blocked()
        assert sorted(woken) == [1, 2]
        signal.send()
    assert sorted(woken) == [1, 2, 3]


async def test_signal_sent_between_checking_and_waiting_is_not_missed() -> None:
    signal = Signal()
    changed = signal.next()
    signal.send()
    with anyio.fail_after(1):
        await changed.wait()
    assert not signal.next().is_set()
