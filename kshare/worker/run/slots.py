"""The tasks that run handlers. They sleep while there is nothing to do, and wake one another one by one.

Waking all of them for each batch would cost more than fast handlers do. So one is woken when something arrives, and
wakes the next before it begins, if there is more. Tasks are created when they are first needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import anyio
from anyio.abc import TaskGroup

from kshare.fast.open_scopes import innermost_scope
from kshare.worker.queue.work_queue import Item
from kshare.worker.records.delivery import Delivery


class ScopeLeft(BaseException):
    """A handler has left a cancel scope open in its task, which therefore ends: whatever that scope does later, it must
    not happen to other records."""


class Slot:
    """One task at a time. Records that it is processing are in `item`, or in `batch`."""

    __slots__ = (
        "_innermost",
        "_own_scope",
        "batch",
        "cancelled_at",
        "delivery",
        "has_ended",
        "is_collecting",
        "is_given_up",
        "is_settling",
        "item",
        "keeps",
        "leaves_task",
        "rest",
        "scope",
        "seen",
        "seen_at",
        "seen_settling",
        "successes_then",
        "timed_out",
    )

    def __init__(self) -> None:
        self.item: Item | None = None
        self.delivery: Delivery | None = None
        """The same as `item`, if the handler has been given a `Delivery`."""
        self.batch: list[Delivery] | None = None
        self.is_collecting = False
        """Whether `batch` is still being collected."""
        self.is_settling = False
        """Whether the handler has ended, so that its time doesn't count."""
        self.timed_out: Sequence[Delivery] = ()
        """If it is cancelled because the handler takes too long: what it is processing."""
        self.keeps = False
        """Whether these are kept, and tried again here."""
        self.cancelled_at: float | None = None
        """When it was first seen that its handler was cancelled and goes on."""
        self.is_given_up = False
        """Whether its records were given back, because it doesn't end although it was cancelled."""
        self.has_ended = False
        """Whether its handler was cancelled and has ended, so that only its records have to be settled."""
        self.scope: anyio.CancelScope | None = None
        self.leaves_task = False
        """Whether the task ends, and another one goes on: a handler has left a cancel scope open in this one."""
        self.rest: Callable[[], Awaitable[None]] | None = None
        """What the next task has to do first."""
        self._innermost: Callable[[], object] = lambda: None
        self._own_scope: object = None
        self.seen: object = None
        """What was seen here when running handlers were last looked after. Noting the time of each record would cost
        too much."""
        self.seen_settling = False
        self.seen_at = 0.0
        self.successes_then = 0
        """How many records the handler had processed by then."""

    @property
    def told(self) -> str:
        """What it is processing, for the log: short, however large its batch is."""
        current = self.current
        if not isinstance(current, list):
            return repr(current) if current is not None else ""
        others = f" and {len(current) - 1:,} more" if len(current) > 1 else ""
        return f"{current[0]!r}{others}" if current else ""

    @property
    def current(self) -> Item | list[Delivery] | None:
        return self.item if self.batch is None else self.batch

    @property
    def is_waiting(self) -> bool:
        """Whether the handler wasn't called yet, so that its time doesn't count."""
        if self.batch is None:
            return self.delivery is not None and self.delivery.is_waiting
        return self.is_collecting or any(delivery.is_waiting for delivery in self.batch)

    @property
    def is_cancelled(self) -> bool:
        return self.scope is not None and self.scope.cancel_called

    def note_scope(self) -> None:
        """Its task has entered the scope in which handlers are called."""
        self._innermost = innermost_scope()
        self._own_scope = self._innermost()

    @property
    def has_left_scope(self) -> bool:
        """Whether its task is in a cancel scope that a handler has left open."""
        return self._innermost() is not self._own_scope

    @property
    def is_as_seen(self) -> bool:
        """Whether it is still doing what `note_as_seen` saw."""
        return self.seen is self.current and self.seen_settling is self.is_settling

    def begin(self, delivery: Delivery, now: float, successes: int) -> None:
        self.item = self.delivery = delivery
        self.note_as_seen(now, successes)

    def note_as_seen(self, now: float, successes: int) -> None:
        self.seen, self.seen_settling, self.seen_at = self.current, self.is_settling, now
        self.successes_then = successes

    def clear(self) -> None:
        self.item = self.delivery = self.batch = None
        self.is_settling = self.keeps = self.is_given_up = self.has_ended = False
        self.timed_out = ()
        self.cancelled_at = None

    def cancel(self) -> None:
        """Cancel the handler that is running."""
        if self.scope is not None and not self.scope.cancel_called:
            for delivery in self.batch or ([self.delivery] if self.delivery else []):
                delivery.is_cancelled = True
            self.scope.cancel()


class Slots:
    """`work` is run by each task, for ever."""

    def __init__(
        self, tasks: TaskGroup, most: int, work: Callable[[Slots, Slot], Coroutine[Any, Any, None]]
    ) -> None:
        self.all: list[Slot] = []
        self._tasks = tasks
        self.most = most
        """How many may be awake."""
        self._work = work
        self._idle: list[anyio.Event] = []
        self._is_waking = False

    @property
    def busy(self) -> int:
        return sum(slot.current is not None for slot in self.all)

    @property
    def running(self) -> int:
        """How many records are being processed."""
        return sum(len(slot.batch) if slot.batch is not None else slot.item is not None for slot in self.all)

    @property
    def settling(self) -> int:
        """How many are settling what their handler has left."""
        return sum(slot.is_settling or slot.has_ended for slot in self.all)

    def cancel_handlers(self) -> int:
        """Cancel all handlers that are running; return how many.

        What has ended is settled: that it has failed mustn't be forgotten.
        """
        running = self.calls
        for slot in running:
            slot.cancel()
        return len(running)

    @property
    def calls(self) -> list[Slot]:
        """Those whose handler is running."""
        return [slot for slot in self.all if slot.current is not None and not slot.is_settling]

    @property
    def has_free(self) -> bool:
        return self._awake < self.most

    @property
    def has_too_many_awake(self) -> bool:
        return self._awake > self.most

    @property
    def _awake(self) -> int:
        return len(self.all) - len(self._idle)

    def wake_one(self) -> None:
        """Wake a task, unless one is waking up already: it will wake the next."""
        if self._is_waking or not self.has_free:
            return
        if self._idle:
            self._is_waking = True
            self._idle.pop().set()
        else:
            self._is_waking = True
            slot = Slot()
            self.all.append(slot)
            self._tasks.start_soon(self._run, slot)

    async def sleep(self) -> None:
        """Wait for `wake_one`."""
        event = anyio.Event()
        self._idle.append(event)
        try:
            await event.wait()
        finally:
            if event.is_set():
                self._is_waking = False
            else:
                self._idle.remove(event)

    async def _run(self, slot: Slot) -> None:
        """The work is done in a task below this one, because a task in which a scope was left open can only fail."""
        self._is_waking = False
        while True:
            slot.leaves_task = False
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._work, self, slot)
            except BaseExceptionGroup as group:
                if not slot.leaves_task or group.split(RuntimeError)[1] is not None:
                    raise
            if not slot.leaves_task:
                return
