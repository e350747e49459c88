"""Simulated time: it jumps to the next timer when nothing can run."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest

from tests.simulation.loop import START_S, SimulatedTime, Standstill


def run(main: Any, backend: str = "asyncio") -> Any:
    return SimulatedTime(backend, 7).run(main)


BOTH = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@BOTH
def test_an_hour_takes_no_time(backend: str) -> None:
    async def main() -> list[str]:
        order = []
        ended.append(anyio.current_time())

        async def sleep(name: str, seconds: float) -> None:
            await anyio.sleep(seconds)
            order.append(name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sleep, "hour", 3600.0)
            tasks.start_soon(sleep, "minute", 60.0)
        ended.append(anyio.current_time())
        return order

    began, ended = time.monotonic(), list[float]()
    assert run(main, backend) == ["minute", "hour"]
    assert ended[1] - ended[0] == 3600.0
    assert time.monotonic() - began < 60.0


@BOTH
def test_a_deadline_passes(backend: str) -> None:
    async def main() -> bool:
        with anyio.move_on_after(5.0) as scope:
            await anyio.sleep_forever()
        return scope.cancelled_caught

    assert run(main, backend)


def test_what_can_never_go_on_is_noticed() -> None:
    async def main() -> None:
        await anyio.Event().wait()

    with pytest.raises(Standstill):
        run(main)


def test_tasks_are_cancelled_in_the_order_in_which_they_were_started() -> None:
    async def main() -> list[int]:
        order: list[int] = []

        async def wait(number: int) -> None:
            try:
                await anyio.sleep_forever()
            finally:
                order.append(number)

        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(wait, number)
            await anyio.sleep(1.0)
            tasks.cancel_scope.cancel()
        return order

    assert run(main) == [*range(50)]


@BOTH
def test_a_program_may_compute_for_a_while(backend: str) -> None:
    time_of_loop = SimulatedTime(backend, 7)

    async def main() -> bool:
        before = time_of_loop.now()
        with anyio.move_on_after(5.0) as scope:
            time_of_loop.jump(6.0)
            await anyio.sleep(1.0)
        assert time_of_loop.now() == before + 6.0 > START_S
        return scope.cancelled_caught

    assert time_of_loop.run(main)


def test_tasks_of_trio_run_in_the_same_order_each_time() -> None:
    async def main() -> list[int]:
        order: list[int] = []

        async def note(number: int) -> None:
            await anyio.sleep(1.0)
            order.append(number)

        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(note, number)
        return order

    assert run(main, "trio") == run(main, "trio")
