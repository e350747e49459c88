"""Calls the user's `dead_letters` function, in a task of its own: nothing waits for it longer than it may take.

A call that goes on although it was cancelled settles nothing any more, so its record can be given back. It is named in
the log. There may be only so many of them, and none is made for a record while an earlier one goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from kshare.errors import KshareError
from kshare.worker.functions.cancellation import forget_cancellation, is_worker_cancelled
from kshare.worker.functions.user_functions import is_failure
from kshare.worker.host import RunningHandler
from kshare.worker.records.delivery import Delivery

_GRACE_S = 3.0
"""How long a call may take to end when it was cancelled."""

Function = Callable[[], Awaitable[object]]


class KeepCalls:
    """As many calls as a handler may run at once may go on although they were cancelled."""

    def __init__(self, handler: RunningHandler) -> None:
        self._handler = handler
        self._going: set[tuple[str, int, int]] = set()
        """The records of those that go on although they were cancelled."""

    async def call(self, delivery: Delivery, function: Function) -> object:
        """Return or raise what the function does. It is cancelled with this call.

        Raises KshareError, and makes no call, while too many go on, or one for the same record.
        """
        tasks = self._handler.tasks
        if tasks is None:
            return await function()
        record = delivery.topic, delivery.partition, delivery.offset
        if record in self._going:
            raise KshareError("an earlier call for this record continues, although it was cancelled")
        if len(self._going) >= (most := self._handler.options.most_at_once):
            raise KshareError(f"{most} calls continue, although they were cancelled")
        call = _Call(function, lambda: self._going.discard(record))
        tasks.start_soon(call.run, name="kshare worker: keep a dead letter")
        try:
            await call.ended.wait()
        finally:
            if not call.ended.is_set():
                call.scope.cancel()
                with anyio.move_on_after(_GRACE_S, shield=True):
                    await call.ended.wait()
            if not call.ended.is_set():
                self._going.add(record)
                self._log_going(delivery)
        return call.outcome()

    def _log_going(self, delivery: Delivery) -> None:
        self._handler.log(
            logging.ERROR,
            "calls of dead_letters continue although they were cancelled, so they don't keep their records: until "
            "they end, the worker can't end (does a bare `except` catch the cancellation?)",
            delivery,
        )


class _Call:
    def __init__(self, function: Function, on_end: Callable[[], None]) -> None:
        self.ended = anyio.Event()
        self.scope = anyio.CancelScope()
        self._function = function
        self._on_end = on_end
        self._result: object = None
        self._error: BaseException | None = KshareError("it was cancelled")

    async def run(self) -> None:
        """In a task below this one: if the function leaves a cancel scope open, its task can only fail."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._run)
        except BaseExceptionGroup as group:
            if group.split(RuntimeError)[1] is not None:
                raise
        finally:
            self.ended.set()
            self._on_end()

    async def _run(self) -> None:
        try:
            with self.scope:
                self._result = await self._function()
                await checkpoint_if_cancelled()  # if it has swallowed that, nobody knows what it has kept
                self._error = None
        except anyio.get_cancelled_exc_class():
            if is_worker_cancelled():
                raise
            forget_cancellation()  # the function has awaited a task that was cancelled
        except BaseException as error:
            if not is_failure(error):
                raise
            self._error = error

    def outcome(self) -> object:
        if self._error is not None:
            raise self._error
        return self._result
