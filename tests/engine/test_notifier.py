"""Notifiers: all current waiters are woken, later ones aren't."""

from __future__ import annotations

import anyio
import pytest

from kshare.engine.notifier import Notifier

pytestmark = pytest.mark.anyio


async def test_all_current_waiters_are_woken_and_later_ones_are_not() -> None:
    notifier, woken = Notifier(), list[int]()

    async def wait(number: int) -> None:
        await notifier.wait()
        woken.append(number)

    notifier.send()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, 1)
        tasks.start_soon(wait, 2)
        await anyio.wait_all_tasks_blocked()
        assert not woken, "earlier notifiers must not wake it"
        notifier.send()
        tasks.start_soon(wait, 3)
        await anyio.wait_all_tasks_blocked()
        assert sorted(woken) == [1, 2]
        notifier.send()
    assert sorted(woken) == [1, 2, 3]


async def test_signal_sent_between_checking_and_waiting_is_not_missed() -> None:
    notifier = Notifier()
    changed = notifier.next()
    notifier.send()
    with anyio.fail_after(1):
        await changed.wait()
    assert not notifier.next().is_set()
