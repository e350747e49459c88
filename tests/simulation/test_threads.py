"""Threads of a simulated process: they take turns, and what they wait for takes simulated time alone."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from random import Random
from typing import Any

import anyio
import pytest

from kshare.sync.shared_loop import SharedLoop
from tests.simulation.loop import SimulatedTime
from tests.simulation.network import Conditions, ProcessNetwork, SimulatedNetwork
from tests.simulation.sync_seams import sync_seams
from tests.simulation.tap import Tap
from tests.simulation.threaded_processes import ThreadedProcess
from tests.simulation.threads import Condition, RLock, Thread, Timer, sleep


def run(
    program: Callable[[ThreadedProcess], None], meanwhile: Callable[[ThreadedProcess], Any] | None = None
) -> float:
    """In a process, of which nothing is left afterwards. Returns for how long it has run."""
    time = SimulatedTime("asyncio", 7)

    async def main() -> float:
        async with anyio.create_task_group() as carrying:
            network = SimulatedNetwork(Random(7), Conditions(), carrying, Tap)
            process = ThreadedProcess("p", 0, ProcessNetwork(network, "p"), lambda *_: None)
            process.clock = time.now
            process.enter()
            began = time.now()
            with process.scope:
                async with anyio.create_task_group() as tasks:
                    if meanwhile is not None:
                        tasks.start_soon(meanwhile, process)
                    await process.live(lambda: program(process), tasks)
                    tasks.cancel_scope.cancel()
            process.end()
            assert process.errors == []
            assert process.threads == []
            return time.now() - began
        raise AssertionError

    with sync_seams():
        return time.run(main)


def test_threads_take_turns_and_sleep_at_the_same_time() -> None:
    seen: list[str] = []

    def work(name: str) -> None:
        for number in range(2):
            seen.append(f"{name}{number}")
            sleep(1.0)

    def program(_: ThreadedProcess) -> None:
        threads = [Thread(work, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        seen.append("started")
        for thread in threads:
            thread.join()

    assert run(program) == pytest.approx(2.0)
    assert seen == ["started", "a0", "b0", "a1", "b1"]


def test_a_lock_is_held_by_one_and_a_condition_wakes_all() -> None:
    lock = RLock()
    changed, seen = Condition(lock), []

    def wait(name: str, seconds: float) -> None:
        with lock:
            seen.append((name, changed.wait(seconds)))

    def program(_: ThreadedProcess) -> None:
        threads = [Thread(wait, args=arguments) for arguments in (("long", 9.0), ("short", 1.0))]
        for thread in threads:
            thread.start()
        sleep(2.0)
        with lock, lock:
            changed.notify_all()
            sleep(1.0)
            seen.append(("main", True))
        for thread in threads:
            thread.join()

    assert run(program) == pytest.approx(3.0)
    assert seen == [("short", False), ("main", True), ("long", True)]


def test_a_timer_calls_unless_it_is_cancelled() -> None:
    seen: list[str] = []

    def program(_: ThreadedProcess) -> None:
        timers = [Timer(1.0, lambda: seen.append("first")), Timer(9.0, lambda: seen.append("second"))]
        for timer in timers:
            timer.start()
        sleep(2.0)
        timers[1].cancel()
        for timer in timers:
            timer.join()

    assert run(program) == pytest.approx(2.0)
    assert seen == ["first"]


@pytest.mark.parametrize("lines", [0, 1, 20])
def test_a_signal_interrupts_the_main_thread(lines: int) -> None:
    """While it waits, or after so many lines of the code that is tested."""
    seen: list[str] = []

    def program(process: ThreadedProcess) -> None:
        with process.interruptible():
            loop = SharedLoop(_User())
            try:
                for _ in range(5):
                    loop.run(_tick)
            except KeyboardInterrupt:
                seen.append("interrupted")
            finally:
                loop.close()

    async def interrupt(process: ThreadedProcess) -> None:
        await anyio.sleep(1.5)
        process.signal(signal.SIGINT, after_lines=lines)

    assert run(program, interrupt) < 5.0
    assert seen == ["interrupted"]


def test_the_background_thread_runs_a_shared_loop_while_its_user_sleeps() -> None:
    seen: list[float] = []

    def program(_: ThreadedProcess) -> None:
        loop = SharedLoop(_User())

        async def begin() -> None:
            asyncio.get_running_loop().call_later(1.0, lambda: seen.append(loop.runner))

        loop.run(begin)
        sleep(2.0)
        assert len(seen) == 1
        assert seen != [threading.get_ident()]
        loop.close()

    assert run(program) == pytest.approx(2.0, abs=0.1)


def test_a_killed_process_ends_wherever_its_threads_are() -> None:
    seen: list[str] = []

    async def hold_on() -> None:
        try:
            await asyncio.sleep(60.0)
        finally:
            seen.append("its task ended")

    def program(_: ThreadedProcess) -> None:
        Thread(sleep, args=(60.0,)).start()
        SharedLoop(_User()).run(hold_on)

    async def kill(process: ThreadedProcess) -> None:
        await anyio.sleep(1.0)
        process.kill()

    assert run(program, kill) == pytest.approx(1.0)
    assert seen == ["its task ended"]


async def _tick() -> None:
    await asyncio.sleep(1.0)


class _User:
    def on_taken(self) -> None:
        pass

    def on_run(self) -> None:
        pass

    def on_free(self) -> None:
        pass
