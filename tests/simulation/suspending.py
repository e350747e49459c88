"""Suspends programs that share an event loop, one by one, as SIGSTOP does: their tasks and timers stand still.

What happens to a program meanwhile waits: what has arrived for it, and timers that were due. When it goes on, it learns
of what has arrived first, and then its timers fire, late. Programs are told apart by a context variable.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar
from typing import Any

import trio
from trio._core._run import GLOBAL_RUN_CONTEXT, CancelScope, CancelStatus


class SuspendingLoop(asyncio.SelectorEventLoop):
    def __init__(self, selector: Any) -> None:
        super().__init__(selector)
        self._held: dict[object, list[asyncio.Handle]] = {}

    def suspend(self, owner: object, owners: ContextVar[Any]) -> None:
        self._held[owner] = []
        self._ready: Any = _ReadyCalls(self, owners, self._ready, self._held)

    def resume(self, owner: object) -> None:
        held = self._held.pop(owner)
        held.sort(key=lambda handle: isinstance(handle, asyncio.TimerHandle))
        self._ready.extend(held)
        if not self._held:
            self._ready = deque(self._ready)


class _ReadyCalls(deque[Any]):
    """Instead of the call of a suspended program, it returns one that was cancelled."""

    def __init__(
        self,
        loop: SuspendingLoop,
        owners: ContextVar[Any],
        calls: deque[Any],
        held: dict[object, list[asyncio.Handle]],
    ) -> None:
        super().__init__(calls)
        self._owners, self._held = owners, held
        self._nothing = asyncio.Handle(print, (), loop)
        self._nothing.cancel()

    def popleft(self) -> Any:
        handle = super().popleft()
        held = self._held.get(handle._context.get(self._owners))
        if held is None:
            return handle
        held.append(handle)
        return self._nothing


class TrioSuspension(trio.abc.Instrument):
    def __init__(self) -> None:
        self._held: dict[object, list[trio.lowlevel.Task]] = {}
        self._late: dict[object, list[CancelScope]] = {}
        """Scopes whose deadline has passed."""

    def suspend(self, owner: object, owners: ContextVar[Any]) -> None:
        self._owners = owners
        if not self._held:
            trio.lowlevel.add_instrument(self)
        self._held[owner], self._late[owner] = [], []
        queue = _ReadyTasks(owners, self._held)
        for task in GLOBAL_RUN_CONTEXT.runner.runq:
            queue.append(task)
        GLOBAL_RUN_CONTEXT.runner.runq = queue

    def resume(self, owner: object) -> None:
        runner = GLOBAL_RUN_CONTEXT.runner
        runner.runq.extend(self._held.pop(owner))
        for scope in self._late.pop(owner):
            with scope._might_change_registered_deadline():
                """It is due now."""
        if not self._held:
            runner.runq = deque(runner.runq)
            trio.lowlevel.remove_instrument(self)

    def after_io_wait(self, timeout: float) -> None:
        """Trio looks for scopes that are due after this."""
        deadlines, now = GLOBAL_RUN_CONTEXT.runner.deadlines, trio.current_time()
        for deadline, _, scope in sorted(deadlines._heap, key=lambda row: row[0]):
            if deadline > now or deadline != scope._registered_deadline:
                continue
            late = self._late.get(self._owner_of(scope._cancel_status))
            if late is not None:
                deadlines.remove(deadline, scope)
                scope._registered_deadline = float("inf")
                late.append(scope)

    def _owner_of(self, status: CancelStatus | None) -> object:
        if status is None:
            return None
        for task in status._tasks:
            return task.context.get(self._owners)
        return next(filter(None, map(self._owner_of, status._children)), None)


class _ReadyTasks(deque[Any]):
    def __init__(self, owners: ContextVar[Any], held: dict[object, list[trio.lowlevel.Task]]) -> None:
        super().__init__()
        self._owners, self._held = owners, held

    def append(self, task: trio.lowlevel.Task) -> None:
        held = self._held.get(task.context.get(self._owners))
        if held is None:
            super().append(task)
        else:
            held.append(task)
