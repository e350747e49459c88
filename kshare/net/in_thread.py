"""Runs work in a thread whose errors keep nothing alive.

An error that leaves `anyio.to_thread.run_sync` is part of a reference cycle and keeps the local variables of all its
frames alive until the garbage collector finds it. That one counts objects, not bytes: a few decompressed batches are
hundreds of megabytes.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

ResultT = TypeVar("ResultT")


async def in_thread(work: Callable[[], ResultT], *, limiter: CapacityLimiter | None = None) -> ResultT:
    """Return, or raise, what `work` does, but for the local variables of its frames."""
    result: list[ResultT] = []
    failed: list[Exception] = []
    # An idle thread keeps what it was called with, and its result. Here, these are empty lists and None.
    todo = [lambda: result.append(work())]
    await to_thread.run_sync(_run, todo, failed, limiter=limiter)
    if failed:
        raise failed.pop()
    return result[0]


def _run(todo: list[Callable[[], None]], failed: list[Exception]) -> None:
    try:
        todo.pop()()
    except Exception as error:
        _forget_locals(error)
        failed.append(error)


def _forget_locals(error: BaseException) -> None:
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        traceback.clear_frames(current.__traceback__)
        current = current.__cause__ or current.__context__
