"""Processes records: may its handler be called? → the handler → what becomes of it.

Whatever happens to a handler is caught here: it returns, raises, or is cancelled. Only the cancellation of the whole
worker goes on. What becomes of the record is decided by the rules (`rules/tables`), and carried out by the executor:
this only finds out the facts.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio
from anyio.lowlevel import checkpoint

from kshare.client.record import lost_spans_of
from kshare.errors import AcknowledgeError, InProgress, KshareError
from kshare.options.checks import is_number
from kshare.worker.functions.cancellation import forget_cancellation, is_task_cancelled, is_worker_cancelled
from kshare.worker.functions.concurrently import for_each
from kshare.worker.functions.user_functions import as_failure, is_failure, require_ended
from kshare.worker.host import RunningHandler
from kshare.worker.queue.work_queue import Item, WorkQueue
from kshare.worker.records.delivery import Delivery
from kshare.worker.records.results import BatchResults, Result
from kshare.worker.rules import tables
from kshare.worker.rules.decision import Decision, RecordOutcome, RunResult
from kshare.worker.rules.facts import Facts, MovedRun
from kshare.worker.rules.retry import LONGEST_DELAY_S
from kshare.worker.run.admission import Admission
from kshare.worker.run.calling import Caller
from kshare.worker.run.failures import HandlerFailures
from kshare.worker.run.slots import ScopeLeft, Slot
from kshare.worker.settle.executor import Executor, is_open
from kshare.worker.settle.moved_runs import MovedRuns, until_moved
from kshare.worker.settle.outbound import Publisher


class Processing:
    """For one handler."""

    def __init__(
        self,
        handler: RunningHandler,
        caller: Caller,
        queue: WorkQueue,
        executor: Executor,
        admission: Admission,
        publisher: Publisher,
        runs: MovedRuns | None,
    ) -> None:
        self._route = handler.route
        self._lane_of = handler.route.lane_of
        self._only = handler.options.only
        self._rules_of_new = tables.rules_of_new_records(handler.options)
        self._caller = caller
        self._queue = queue
        self._executor = executor
        self._failures = HandlerFailures(handler, admission)
        self._admission = admission
        self._publisher = publisher
        self._host = handler.host
        self._runs = runs
        self._counts = handler.counts
        self._summary = handler.summary

    # --- single records

    async def one(self, slot: Slot, delivery: Delivery) -> None:
        """Process the slot's record. Raises ScopeLeft if another task has to do the rest."""
        error: BaseException | None = None
        is_called = False
        try:
            slot.is_settling = True  # if it becomes a copy instead, that isn't limited as handlers are
            may_call = await self._is_to_be_called(delivery)
            slot.is_settling = False
            if may_call and self._has_lock(delivery):
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
                    await self._write_results([delivery])
                await self._returned(delivery)
        except Exception as problem:
            await self.failed(slot, delivery, problem)
        except BaseException as problem:
            await self.ended(slot, problem)
        finally:
            error = None
        await self.finish(delivery)

    # --- batches

    async def batch(self, slot: Slot) -> None:
        """Process the records of `slot.batch` together. Raises ScopeLeft if another task has to do the rest."""
        whole = slot.batch
        assert whole is not None, "collected before"
        slot.is_settling = True
        decided: list[tuple[list[Delivery], Delivery, Decision]] = []
        for delivery in [*whole]:
            await self._look_at(slot, whole, delivery, decided)
        await for_each(decided, self._carry_out)
        for delivery in [*whole]:
            if not self._has_lock(delivery):
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

    async def _look_at(
        self,
        slot: Slot,
        whole: list[Delivery],
        delivery: Delivery,
        decided: list[tuple[list[Delivery], Delivery, Decision]],
    ) -> None:
        """Leave it out of the batch if its handler isn't to be called for it. What has to be written is added to
        `decided` instead, to be written for all of the batch at once."""
        try:
            decision = await self._before_call(delivery)
            if decision is None:
                self._caller.decode(delivery)
                return
            if decision.outcome not in _AT_ONCE:
                decided.append((whole, delivery, decision))
                return
            await self._executor.carry_out(delivery, decision)
        except Exception as error:
            await self.failed(slot, delivery, error)
        except BaseException as error:
            if not is_failure(error):
                raise
            await self.failed(slot, delivery, as_failure(error))
        self._leave_out(whole, delivery)

    async def _carry_out(self, whole: list[Delivery], delivery: Delivery, decision: Decision) -> None:
        """Until that is done, the record is the batch's: if settling is cancelled, it is handed back."""
        await self._executor.carry_out(delivery, decision)
        self._leave_out(whole, delivery)

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
                await self._write_results(whole)
            others = []
            for delivery in whole:
                if delivery.decision is None or delivery.is_accepted:
                    await self._returned(delivery)
                else:
                    others.append((delivery,))
            await for_each(others, self._returned)
        except Exception as problem:
            await for_each([(slot, delivery, problem) for delivery in whole], self.failed)
        except BaseException as problem:
            await self.ended(slot, problem)
        finally:
            error = None
        for delivery in whole:
            self.leave_lane(delivery)

    # --- before the call

    async def _is_to_be_called(self, delivery: Delivery) -> bool:
        """If not, the record was settled, moved, or is held."""
        decision = await self._before_call(delivery)
        if decision is not None:
            await self._executor.carry_out(delivery, decision)
        return decision is None

    async def _before_call(self, delivery: Delivery) -> Decision | None:
        """What becomes of the record without its handler; None if that is to be called."""
        rules = self._rules_of_new if delivery.is_new else tables.BEFORE_CALL
        if rules:
            facts = self._executor.facts(delivery)
            if delivery.pending is None and delivery.context is not None and delivery.context.run:
                facts.run = await self._run_of(delivery)
            if self._only is not None:
                facts.wants = partial(self._is_selected, self._only, delivery)
            decision = tables.before_call(facts, rules)
            if decision is not None:
                return decision
        if self._lane_of is not None:
            self._lane_of(delivery.record)  # if that fails, it isn't in order, so it fails too
        return None

    @staticmethod
    def _is_selected(only: Callable[[Delivery], bool], delivery: Delivery) -> bool:
        selected = only(delivery)
        require_ended(only, selected, "only")
        return bool(selected)

    async def _run_of(self, delivery: Delivery) -> MovedRun:
        """What has become of the run that this copy stands for."""
        assert self._runs is not None, "there are retry topics"
        try:
            return MovedRun.GOES_ON if await self._runs.is_over(delivery) else MovedRun.ENDED
        except KshareError as problem:
            self._summary.event(
                logging.WARNING,
                "copies of moved records are looked at later: their log can't be read",
                problem,
            )
            return MovedRun.UNKNOWN

    def _has_lock(self, delivery: Delivery) -> bool:
        """Whether its handler may be called now: it may have waited for long, or a dead letter of its batch may have
        taken long."""
        self._host.check_leases()
        if is_open(delivery) or delivery.decision is not None:
            return True
        self._executor.on_lost(delivery, KshareError("before its handler was called"))
        return False

    async def move_away(self, delivery: Delivery) -> None:
        """Move a record that was delivered too often, without its handler. If the limit was raised meanwhile, or a
        function of the user's raises, a slot processes it."""
        try:
            is_called = await self._is_to_be_called(delivery)
        except AcknowledgeError as problem:
            self._executor.on_lost(delivery, problem)
            return
        except BaseException as problem:
            if not is_failure(problem):
                raise
            is_called = True  # which raises again, where that is handled
        if is_called:
            self._queue.put(delivery)
            self._host.wake()

    # --- after the call

    async def _write_results(self, deliveries: Sequence[Delivery]) -> None:
        """Write what the handler has published, for those of the deliveries that are to be accepted, and for the whole
        batch if any is. Raises KshareError if that fails: then the handler has failed.

        Results and acknowledgements could be one transaction here, once brokers have that.
        """
        results: list[Result] = []
        batch: BatchResults | None = None
        for delivery in deliveries:
            if delivery.decision is None or delivery.is_accepted:
                taken = delivery.take_results()
                if is_open(delivery):  # otherwise accepting it will fail
                    results += taken
                    batch = delivery.batch_results
        if batch is None:
            if results:
                await self._publisher.write(results)
            return
        whole = [*batch.to_write(), *results]
        if whole:
            try:
                await self._publisher.write(whole)
            except KshareError as problem:
                batch.on_failed(problem)
                raise
            batch.on_written()

    async def _returned(self, delivery: Delivery) -> None:
        decision = tables.when_returned(delivery.decision)
        if decision is None:
            facts = self._executor.facts(delivery)
            facts.call = RunResult.RETURNED
            decision = tables.after_call(facts)
        became = await self._executor.carry_out(delivery, decision)
        if became is not RecordOutcome.LOST:
            self._admission.on_success()

    async def failed(self, slot: Slot, delivery: Delivery, error: Exception) -> None:
        """The handler raised."""
        await unless_cancelled(slot)  # it may have raised because of that
        await until_moved(delivery)
        await self._raised(delivery, error)

    async def _raised(self, delivery: Delivery, error: Exception, *, is_told: bool = False) -> None:
        """`is_told`: `on_error` was called for this run before. It may not decide a second time, as its decision may be
        what has failed."""
        facts = self._executor.facts(delivery)
        facts.call, facts.error = RunResult.FAILED, error
        if isinstance(error, InProgress) and delivery.decision is None:
            # Another member is processing a copy of it: this is neither a failure nor a success.
            facts.call = RunResult.POSTPONED
            facts.postponed_s = _pause_of(error)
        elif facts.is_in_hand or delivery.is_accepted:
            self._failures.note(delivery, error, facts, is_told=is_told)
        decision = tables.after_call(facts)
        if decision.outcome is RecordOutcome.ACCEPTED and await self._has_raised_again(delivery):
            return
        await self._executor.carry_out(delivery, decision)

    async def _has_raised_again(self, delivery: Delivery) -> bool:
        """The handler has raised after it had accepted the record, which may wait for results, its own or those of its
        batch. Returns whether writing them has failed: then the record is handled as after any failure."""
        if not (delivery.has_unwritten or is_open(delivery)):
            return False
        try:
            await self._write_results([delivery])
        except KshareError as problem:
            await self._raised(delivery, problem, is_told=True)
            return True
        delivery.decision = None  # it is accepted now
        return False

    async def ended(self, slot: Slot, error: BaseException) -> None:
        """The handler raised what isn't an Exception. Raises it again if it is for us: we were cancelled, or Ctrl-C."""
        if slot.is_cancelled or is_worker_cancelled():
            if is_failure(error):  # whatever it raises when it is cancelled, only the cancellation counts
                await checkpoint()
            raise error
        is_cancellation = isinstance(error, anyio.get_cancelled_exc_class())
        if is_cancellation and is_task_cancelled():
            # Not the slot but its task was cancelled: by the handler itself, or by whoever ends the event loop.
            forget_cancellation()
            for delivery in self.deliveries_of(slot):
                await until_moved(delivery)
            await for_each([(delivery,) for delivery in self.deliveries_of(slot)], self._cancelled)
        elif is_cancellation or is_failure(error):
            # The handler has awaited a task or a future that was cancelled elsewhere.
            failure = as_failure(error)
            await for_each([(slot, delivery, failure) for delivery in self.deliveries_of(slot)], self.failed)
        else:
            raise error

    async def _cancelled(self, delivery: Delivery, keeps: bool = False) -> None:
        """`keeps`: it is tried again later, without being handed back."""
        self._counts.cancelled += 1
        delivery.is_over = True
        facts = self._executor.facts(delivery)
        facts.call, facts.keeps = RunResult.CANCELLED, keeps
        facts.is_lock_lost = _is_lock_lost(delivery, facts)
        facts.has_unwritten = delivery.has_unwritten
        await self._executor.carry_out(delivery, tables.after_call(facts))

    # --- slots

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

    async def cancelled(self, slot: Slot) -> None:
        """The slot was cancelled."""
        going = slot.timed_out or self.deliveries_of(slot)
        if not slot.is_given_up:
            left = [(delivery, slot.keeps) for delivery in going if not delivery.is_done_with]
            await for_each(left, self.settle_cancelled)
        for delivery in going:
            self._queue.note_ended(delivery)
            self.leave_lane(delivery)

    async def settle_cancelled(self, delivery: Delivery, keeps: bool = False) -> None:
        """Its handler was cancelled. If it goes on all the same, other records of its key have to wait for its end."""
        await until_moved(delivery)
        await self._cancelled(delivery, keeps)
        await self._finish(delivery)

    async def finish(self, delivery: Delivery) -> None:
        """What became of it is decided, and written where necessary."""
        await self._finish(delivery)
        self.leave_lane(delivery)

    async def _finish(self, delivery: Delivery) -> None:
        if self._runs is not None:
            await self._runs.finish(delivery)

    def leave_lane(self, item: Item) -> None:
        if self._queue.leave(item):
            self._host.wake()

    def deliveries_of(self, slot: Slot) -> list[Delivery]:
        """What it is processing."""
        current = slot.current
        if current is None or isinstance(current, list):
            return current or []
        return [self._route.delivery_of(current)]


async def unless_cancelled(slot: Slot) -> None:
    """A handler that was cancelled may return all the same: its record isn't accepted."""
    if slot.is_cancelled or is_worker_cancelled():
        await checkpoint()


_AT_ONCE = (RecordOutcome.FILTERED, RecordOutcome.SUPERSEDED)
"""Decisions that are carried out without waiting for anything."""
_PAUSE_S = 1.0


def _pause_of(error: InProgress) -> float:
    """For how long it says that the record has to wait. It may be a user's own, with anything in it."""
    pause = error.retry_after
    return min(pause, LONGEST_DELAY_S) if is_number(pause) and pause >= 0 else _PAUSE_S


def _is_lock_lost(delivery: Delivery, facts: Facts) -> bool:
    offset = delivery.record.offset
    return not facts.is_in_hand and bool(lost_spans_of(delivery.record.batch, offset, offset))
