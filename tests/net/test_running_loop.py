"""The current task, with either library."""

from __future__ import annotations

import anyio
import pytest

from kshare.net.running_loop import task_function

pytestmark = pytest.mark.anyio


async def test_tasks_are_told_apart() -> None:
    current = task_function()
    found = [current(), current()]

    async def note() -> None:
        found.append(current())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(note)
    assert found[0] is found[1]
    assert found[2] is not found[0]
    assert found[2] is not None
