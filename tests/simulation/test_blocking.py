"""Blocking code in a simulation: it runs while the loop stands still, and the loop runs while it waits."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus

from tests.simulation.blocking import Killed, run_blocking, sleep, wait_for
from tests.simulation.loop import SimulatedTime
from tests.simulation.portals import portal_tasks, start_portal

BOTH = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def run(main: Any, backend: str) -> Any:
    async def with_portals() -> Any:
        async with anyio.create_task_group() as tasks:
            portal_tasks.set(tasks)
            try:
                return await main(), None
            except Exception as error:
                return None, error
            finally:
                tasks.cancel_scope.cancel()
        raise AssertionError

    result, error = SimulatedTime(backend, 7).run(with_portals)
    assert not [thread for thread in threading.enumerate() if thread.name == "simulated"]
    if error is not None:
        raise error
    return result


@BOTH
def test_the_loop_runs_while_code_waits(backend: str) -> None:
    order: list[str] = []

    async def tick() -> None:
        for number in range(3):
            order.append(f"tick {number}")
            await anyio.sleep(1.0)

    def block() -> float:
        order.append("begins")
        sleep(1.5)
        order.append("goes on")
        return wait_for(_now)

    async def main() -> float:
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tick)
            await anyio.sleep(0.1)
            return await run_blocking(block) - began
        raise AssertionError

    assert run(main, backend) == pytest.approx(1.6)
    assert order == ["tick 0", "begins", "tick 1", "goes on", "tick 2"]


async def _now() -> float:
    return anyio.current_time()


@BOTH
def test_errors_reach_the_code_and_its_caller(backend: str) -> None:
    async def fail() -> None:
        raise OSError("no route")

    def block() -> None:
        try:
            wait_for(fail)
        except OSError as error:
            raise ValueError(f"it said {error}") from error

    with pytest.raises(ValueError, match="it said no route"):
        run(partial(run_blocking, block), backend)


@BOTH
def test_cancelled_code_is_killed_wherever_it_waits(backend: str) -> None:
    seen: list[str] = []

    def block() -> None:
        try:
            sleep(60.0)
        except Killed:
            seen.append("killed")
            try:
                sleep(1.0)
            finally:
                seen.append("killed again")

    async def main() -> bool:
        with anyio.move_on_after(1.0) as scope:
            await run_blocking(block)
        return scope.cancelled_caught

    assert run(main, backend)
    assert seen == ["killed", "killed again"]


@BOTH
def test_a_portal_leads_into_the_loop(backend: str) -> None:
    async def wait(seconds: float) -> str:
        await anyio.sleep(seconds)
        return f"after {seconds}"

    async def serve(*, task_status: TaskStatus[str]) -> str:
        task_status.started("served")
        await anyio.sleep(5.0)
        return "ended"

    def block() -> list[str]:
        with start_portal("asyncio", name="one") as portal:
            assert threading.current_thread().name == "simulated"
            running, value = portal.start_task(serve)
            slow = portal.start_task_soon(wait, 60.0)
            found = [value, portal.call(wait, 1.0), portal.call(lambda: "plain"), running.result()]
            slow.cancel()
            with pytest.raises(CancelledError):
                slow.result()
            return found

    assert run(partial(run_blocking, block), backend) == ["served", "after 1.0", "plain", "ended"]


@BOTH
def test_a_task_that_fails_before_it_has_started_tells_so(backend: str) -> None:
    async def fail(*, task_status: TaskStatus[None]) -> None:
        await anyio.sleep(1.0)
        raise OSError("no broker")

    def block() -> None:
        with start_portal() as portal:
            portal.start_task(fail)

    with pytest.raises(OSError, match="no broker"):
        run(partial(run_blocking, block), backend)


@BOTH
def test_a_stopped_portal_cancels_what_is_left_if_it_is_told_to(backend: str) -> None:
    def block() -> bool:
        with start_portal() as portal:
            left = portal.start_task_soon(anyio.sleep_forever)
            portal.call(portal.stop, True)
        return left.cancelled()

    assert run(partial(run_blocking, block), backend)
