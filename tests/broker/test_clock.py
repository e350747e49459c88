"""The broker's clocks: manual and real."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kshare.broker.clock import JumpingClock, ManualClock, SystemClock
from kshare.broker.notifiers import Notifier, wait_for_any
from kshare.errors import ConfigError


def test_timers_fire_in_order_of_time_then_of_creation() -> None:
    clock, seen = ManualClock(1000), list[tuple[str, int]]()
    clock.at(1300, lambda: seen.append(("late", clock.now())))
    clock.at(1100, lambda: seen.append(("first", clock.now())))
    clock.after(100, lambda: seen.append(("second", clock.now())))
    clock.advance(50)
    assert seen == []
    clock.advance(300)
    assert seen == [("first", 1100), ("second", 1100), ("late", 1300)]
    assert clock.now() == 1350


def test_cancelled_timer_never_fires_and_a_callback_can_set_a_timer() -> None:
    clock, seen = ManualClock(0), list[int]()
    gone = clock.at(10, lambda: seen.append(-1))
    clock.at(5, gone.cancel)

    def set_another() -> None:
        clock.after(10, lambda: seen.append(clock.now()))

    clock.at(10, set_another)
    clock.advance(100)
    assert seen == [20]
    assert not gone.is_pending
    assert clock.next_due() is None


def test_timer_that_sets_another_for_the_same_time_does_not_hang_the_clock() -> None:
    clock, calls = ManualClock(0), list[int]()

    def again() -> None:
        calls.append(clock.now())
        if len(calls) < 5:
            clock.at(clock.now(), again)

    clock.at(1, again)
    clock.fire_due()
    assert calls == []
    clock.advance(1)
    assert len(calls) == 5


@pytest.mark.anyio
async def test_the_system_clock_wakes_for_an_earlier_timer() -> None:
    clock, fired = SystemClock(), anyio.Event()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(clock.run)
            clock.after(60_000, lambda: None)
            await anyio.sleep(0.01)
            clock.after(1, fired.set)
            await fired.wait()
            tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_wait_ends_on_a_signal_or_timeout() -> None:
    clock, notifier, woken = ManualClock(0), Notifier(), list[bool]()

    async def wait() -> None:
        woken.append(await wait_for_any([Notifier(), notifier], clock, 100))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            notifier.fire()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            clock.advance(100)
        await wait()
    assert woken == [True, False, False]
    assert clock.next_due() is None


@pytest.mark.anyio
async def test_clock_that_was_set_forward_fires_timers_in_their_order() -> None:
    clock, seen = JumpingClock(), list[str]()
    done = anyio.Event()
    clock.after(7_200_000, done.set)
    clock.after(3_600_000, lambda: seen.append("an hour"))
    clock.after(60_000, lambda: seen.append("a minute"))
    before = clock.now()
    clock.jump(1)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(clock.run)
            await anyio.lowlevel.checkpoint()
            clock.jump(7_200_000)
            await done.wait()
            tasks.cancel_scope.cancel()
    assert seen == ["a minute", "an hour"]
    assert 7_200_000 <= clock.now() - before < 7_300_000


@pytest.mark.parametrize("milliseconds", [-1, "1", 0.5, None])
def test_manual_clock_takes_whole_numbers_only(milliseconds: Any) -> None:
    clock = ManualClock(1000)
    with pytest.raises(ConfigError, match="milliseconds must be a whole number, 0 or more, not "):
        clock.advance(milliseconds)
    assert clock.now() == 1000
