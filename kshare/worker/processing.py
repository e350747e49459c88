"""Processes records: may it be processed? → filter → handler → what becomes of it.

Whatever happens to a handler is caught here: it returns, raises, or is cancelled. Only the cancellation of the whole
worker goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
from anyio.lowlevel import checkpoint

from kshare.worker.calling import Caller
from kshare.worker.counts import Counts
from kshare.worker.delivery import Delivery
from kshare.worker.long_runs import LongRuns, until_moved
from kshare.worker.observer import RecordOutcome
from kshare.worker.outcomes import Outcomes
from kshare.worker.routes import Route
from kshare.worker.slots import Slot
from kshare.worker.user_functions import as_failure, is_failure
from kshare.worker.watching import Watch
from kshare.worker.work_queue import Item, WorkQueue


class Processing:
    """For one handler. `on_ready` is called when a record became ready because another one is done."""

    def __init__(
        self,
        route: Route,
        caller: Caller,
        queue: WorkQueue,
        outcomes: Outcomes,
        long_runs: LongRuns | None,
        counts: Counts,
        watch: Watch,
        *,
        deliver: Callable[[Item], Delivery],
        on_ready: Callable[[], None],
    ) -> None:
        self._lane_of = route.lane_of
        self._only = route.options.only
        self._caller = caller
        self._queue = queue
        self._outcomes = outcomes
        self._long_runs = long_runs
        self._counts = counts
        self._watch = watch
        self._deliver = deliver
        self._on_ready = on_ready

    async def one(self, slot: Slot, delivery: Delivery) -> None:
        """Process a record."""
        slot.item = slot.delivery = delivery
        try:
            if await self._outcomes.may_process(delivery) and self._is_wanted(delivery):
                await self._caller.one(delivery)
                slot.is_settling = True
                await unless_cancelled(slot)
                await until_moved(delivery)
                if delivery.results:
                    await self._outcomes.write_results([delivery])
                await self._outcomes.on_returned(delivery)
        except Exception as error:
            slot.is_settling = True
            await self.failed(slot, delivery, error)
        except BaseException as error:
            slot.is_settling = True
            await self.ended(slot, error)
        await self.finish(delivery)

    async def batch(self, slot: Slot) -> None:
        """Process the records of `slot.batch` together."""
        whole = slot.batch
        assert whole is not None, "collected before"
        for delivery in [*whole]:
            if not await self._may_join(slot, delivery):
                whole.remove(delivery)
                self.leave_lane(delivery)
        try:
            if whole:
                await self._caller.batch(whole)
                slot.is_settling = True
                await unless_cancelled(slot)
                await self._outcomes.write_results(whole)
            for delivery in whole:
                await self._outcomes.on_returned(delivery)
        except Exception as error:
            slot.is_settling = True
            for delivery in whole:
                await self.failed(slot, delivery, error)
        except BaseException as error:
            slot.is_settling = True
            await self.ended(slot, error)
        for delivery in whole:
            self.leave_lane(delivery)

    async def _may_join(self, slot: Slot, delivery: Delivery) -> bool:
        """Whether the handler gets it with the batch. If not, it was settled, or is held."""
        try:
            if not (await self._outcomes.may_process(delivery) and self._is_wanted(delivery)):
                return False
            self._caller.decode(delivery)
        except Exception as error:
            await self.failed(slot, delivery, error)
            return False
        return True

    def _is_wanted(self, delivery: Delivery) -> bool:
        """Whether the handler is to be called. If not, the record was accepted."""
        if self._lane_of is not None:
            hash(self._lane_of(delivery.record))  # if that fails, it isn't in order, so it fails too
        if self._only is None or self._only(delivery):
            return True
        delivery.accept()
        self._counts.filtered += 1
        self._watch.settled(RecordOutcome.FILTERED, delivery)
        return False

    async def failed(self, slot: Slot, delivery: Delivery, error: Exception) -> None:
        """The handler raised."""
        await unless_cancelled(slot)  # it may have raised because of that
        await until_moved(delivery)
        await self._outcomes.on_exception(delivery, error)

    async def ended(self, slot: Slot, error: BaseException) -> None:
        """The handler raised what isn't an Exception. Raises it again if it is for us: we were cancelled, or Ctrl-C."""
        if slot.is_cancelled or is_worker_cancelled():
            raise error
        if isinstance(error, asyncio.CancelledError):
            # Nobody has cancelled the slot: the handler has awaited a cancelled task, or cancelled its own.
            forget_cancellation()
            for delivery in self._deliveries_of(slot):
                await self._outcomes.on_cancelled(delivery)
        elif is_failure(error):
            failure = as_failure(error)
            for delivery in self._deliveries_of(slot):
                await self.failed(slot, delivery, failure)
        else:
            raise error

    async def cancelled(self, slot: Slot) -> None:
        """The slot was cancelled."""
        for delivery in self._deliveries_of(slot):
            await until_moved(delivery)
            await self._outcomes.on_cancelled(delivery)
            await self.finish(delivery)

    async def finish(self, delivery: Delivery) -> None:
        """What became of it is decided, and written where necessary."""
        if self._long_runs is not None:
            self._long_runs.stop_copying(delivery)
        await self._outcomes.finish(delivery)
        self.leave_lane(delivery)

    def leave_lane(self, item: Item) -> None:
        if self._queue.leave(item):
            self._on_ready()

    def _deliveries_of(self, slot: Slot) -> list[Delivery]:
        current = slot.current
        if current is None or isinstance(current, list):
            return current or []
        return [self._deliver(current)]


async def unless_cancelled(slot: Slot) -> None:
    """A handler that was cancelled may return all the same: its record isn't accepted."""
    if slot.is_cancelled or is_worker_cancelled():
        await checkpoint()


def is_worker_cancelled() -> bool:
    """Whether everything around the slot is cancelled, or the scope that this is called in."""
    return anyio.current_effective_deadline() == float("-inf")


def forget_cancellation() -> None:
    """Let asyncio's task go on as if nobody had called its `cancel`. Otherwise anyio ends all tasks around it."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # trio
        return
    while task is not None and task.cancelling():
        task.uncancel()
