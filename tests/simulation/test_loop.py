"""Simulated time: it jumps to the next timer when nothing can run."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest

from tests.simulation.loop import START_S, SimulatedLoop, Standstill, cancelling_in_order


def run(main: Any) -> Any:
    return anyio.run(main, backend_options={"loop_factory": SimulatedLoop})


def test_an_hour_takes_no_time() -> None:
    async def main() -> list[str]:
        order = []

        async def sleep(name: str, seconds: float) -> None:
            await anyio.sleep(seconds)
            order.append(name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sleep, "hour", 3600.0)
            tasks.start_soon(sleep, "minute", 60.0)
        assert anyio.current_time() == START_S + 3600.0
        return order

    began = time.monotonic()
    assert run(main) == ["minute", "hour"]
    assert time.monotonic() - began < 60.0


def test_a_deadline_passes() -> None:
    async def main() -> bool:
        with anyio.move_on_after(5.0) as scope:
            await anyio.sleep_forever()
        return scope.cancelled_caught

    assert run(main)


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

    with cancelling_in_order():
        assert run(main) == [*range(50)]
