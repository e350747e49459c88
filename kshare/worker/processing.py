"""Processes records: may it be processed? → filter → handler → what becomes of it.

Whatever happens to a handler is caught here: it returns, raises, or is cancelled. Only the cancellation of the whole
worker goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
from anyio.lowlevel import checkpoint

from kshare.summary_log import SummaryLog
from kshare.worker.calling import Caller
from kshare.worker.cancellation import forget_cancellation, is_worker_cancelled
from kshare.worker.counts import Counts
from kshare.worker.delivery import Decision, Delivery
from kshare.worker.long_runs import LongRuns, until_moved
from kshare.worker.many import for_each
from kshare.worker.observer import RecordOutcome
from kshare.worker.outcomes import Outcomes
from kshare.worker.routes import Route
from kshare.worker.slots import ScopeLeft, Slot
from kshare.worker.user_functions import as_failure, is_failure, require_ended
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
        summary: SummaryLog,
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
        self._summary = summary
        self._watch = watch
        self._deliver = deliver
        self._on_ready = on_ready

    async def one(self, slot: Slot, delivery: Delivery) -> None:
        """Process the slot's record. Raises ScopeLeft if another task has to do the rest."""
        error: BaseException | None = None
        is_called = False
        try:
            slot.is_settling = True  # if it becomes a copy instead, that isn't limited as handlers are
            may_process = await self._outcomes.may_process(delivery)
            slot.is_settling = False
            if may_process and self._is_wanted(delivery) and self._outcomes.has_lock(delivery):
                is_called = True
                await self._caller.one(delivery)
        except BaseException as problem:
            error = problem
        try:
            slot.is_settling = True
            self.require_own_scope(slot, partial(self._settle_one, slot, delivery, error, is_called))
            await self._settle_one(slot, delivery, error, is_called)
        finally:
            error = None  # its traceback has this frame

    async def _settle_one(
        self, slot: Slot, delivery: Delivery, error: BaseException | None, is_called: bool
    ) -> None:
        """`error` is what the handler has raised."""
        try:
            if error is not None:
                raise error
            if is_called:
                await unless_cancelled(slot)
                await until_moved(delivery)
                if delivery.results:
                    await self._outcomes.write_results([delivery])
                await self._outcomes.on_returned(delivery)
        except Exception as problem:
            await self.failed(slot, delivery, problem)
        except BaseException as problem:
            await self.ended(slot, problem)
        finally:
            error = None
        await self.finish(delivery)

    async def batch(self, slot: Slot) -> None:
        """Process the records of `slot.batch` together. Raises ScopeLeft if another task has to do the rest."""
        whole = slot.batch
        assert whole is not None, "collected before"
        slot.is_settling = True
        for delivery in [*whole]:
            if not await self._may_join(slot, delivery):
                self._leave_out(whole, delivery)
        for delivery in [*whole]:
            if not self._outcomes.has_lock(delivery):
                self._leave_out(whole, delivery)
        slot.is_settling = False
        error: BaseException | None = None
        try:
            if whole:
                await self._caller.batch(whole)
        except BaseException as problem:
            error = problem
        try:
            slot.is_settling = True
            self.require_own_scope(slot, partial(self._settle_batch, slot, whole, error))
            await self._settle_batch(slot, whole, error)
        finally:
            error = None  # its traceback has this frame

    def _leave_out(self, whole: list[Delivery], delivery: Delivery) -> None:
        """It was settled, is held, or has lost its lock."""
        whole.remove(delivery)
        self.leave_lane(delivery)

    async def _settle_batch(self, slot: Slot, whole: list[Delivery], error: BaseException | None) -> None:
        """`error` is what the handler has raised. Copies are written at once, not one after another."""
        try:
            if error is not None:
                raise error
            if whole:
                await unless_cancelled(slot)
                await self._outcomes.write_results(whole)
            others = []
            for delivery in whole:
                if delivery.decision in (None, Decision.ACCEPTED):
                    await self._outcomes.on_returned(delivery)
                else:
                    others.append((delivery,))
            await for_each(others, self._outcomes.on_returned)
        except Exception as problem:
            await for_each([(slot, delivery, problem) for delivery in whole], self.failed)
        except BaseException as problem:
            await self.ended(slot, problem)
        finally:
            error = None
        for delivery in whole:
            self.leave_lane(delivery)

    def require_own_scope(self, slot: Slot, rest: Callable[[], Awaitable[None]] | None = None) -> None:
        """Raises ScopeLeft if a handler has left a cancel scope open: then another task has to do the rest."""
        if not slot.has_left_scope:
            return
        slot.rest = partial(self.cancelled, slot) if slot.is_cancelled else rest
        self._summary.event(
            logging.ERROR,
            "handlers left a cancel scope open, so their task was ended: an async generator that was left in the "
            "middle, for instance, has to be closed by its handler (contextlib.aclosing)",
            slot.told,
        )
        raise ScopeLeft

    async def _may_join(self, slot: Slot, delivery: Delivery) -> bool:
        """Whether the handler gets it with the batch. If not, it was settled, or is held."""
        try:
            if not (await self._outcomes.may_process(delivery) and self._is_wanted(delivery)):
                return False
            self._caller.decode(delivery)
        except Exception as error:
            await self.failed(slot, delivery, error)
            return False
        except BaseException as error:
            if not is_failure(error):
                raise
            await self.failed(slot, delivery, as_failure(error))
            return False
        return True

    def _is_wanted(self, delivery: Delivery) -> bool:
        """Whether the handler is to be called. If not, the record was accepted."""
        if self._lane_of is not None:
            lane = self._lane_of(delivery.record)
            require_ended(self._lane_of, lane, "order")
            hash(lane)  # if that fails, it isn't in order, so it fails too
        if self._only is None:
            return True
        wanted = self._only(delivery)
        require_ended(self._only, wanted, "only")
        if wanted:
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
            if is_failure(error):  # whatever it raises when it is cancelled, only the cancellation counts
                await checkpoint()
            raise error
        if isinstance(error, anyio.get_cancelled_exc_class()):
            # Nobody has cancelled the slot: the handler has awaited a cancelled task, or cancelled its own.
            forget_cancellation()
            for one in self.deliveries_of(slot):
                await until_moved(one)
            await for_each([(one,) for one in self.deliveries_of(slot)], self._outcomes.on_cancelled)
        elif is_failure(error):
            failure = as_failure(error)
            await for_each([(slot, one, failure) for one in self.deliveries_of(slot)], self.failed)
        else:
            raise error

    async def cancelled(self, slot: Slot) -> None:
        """The slot was cancelled."""
        going = slot.timed_out or self.deliveries_of(slot)
        if not slot.is_given_up:
            await for_each([(one, slot.keeps) for one in going], self.settle_cancelled)
        for delivery in going:
            self._queue.note_ended(delivery)
            self.leave_lane(delivery)

    async def settle_cancelled(self, delivery: Delivery, keeps: bool = False) -> None:
        """Its handler was cancelled. If it goes on all the same, other records of its key have to wait for its end."""
        await until_moved(delivery)
        await self._outcomes.on_cancelled(delivery, keeps=keeps)
        await self._finish(delivery)

    async def finish(self, delivery: Delivery) -> None:
        """What became of it is decided, and written where necessary."""
        await self._finish(delivery)
        self.leave_lane(delivery)

    async def _finish(self, delivery: Delivery) -> None:
        if self._long_runs is not None:
            self._long_runs.stop_copying(delivery)
        await self._outcomes.finish(delivery)

    def leave_lane(self, item: Item) -> None:
        if self._queue.leave(item):
            self._on_ready()

    def deliveries_of(self, slot: Slot) -> list[Delivery]:
        """What it is processing."""
        current = slot.current
        if current is None or isinstance(current, list):
            return current or []
        return [self._deliver(current)]


async def unless_cancelled(slot: Slot) -> None:
    """A handler that was cancelled may return all the same: its record isn't accepted."""
    if slot.is_cancelled or is_worker_cancelled():
        await checkpoint()
