"""Who was cancelled: the worker around a task, or only what a user's function has done to its task?"""

from __future__ import annotations

import asyncio
from typing import Any

import anyio


def is_worker_cancelled() -> bool:
    """Whether everything around the slot is cancelled, or the scope that this is called in."""
    return anyio.current_effective_deadline() == float("-inf")


def is_task_cancelled() -> bool:
    """Whether somebody has called `cancel` of this asyncio task. Otherwise what it has awaited was cancelled."""
    task = _task()
    return task is not None and task.cancelling() > 0


def forget_cancellation() -> None:
    """Let asyncio's task go on as if nobody had called its `cancel`. Otherwise anyio ends all tasks around it."""
    task = _task()
    while task is not None and task.cancelling():
        task.uncancel()


def _task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # trio
        return None
