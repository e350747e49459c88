"""What a slot does: takes the next record, or the next records of a batch, and lets them be processed.

An async handler that takes only the payload is called in time slices, which cost little. Everything else goes
through `processing`.
"""

from __future__ import annotations

import asyncio
from functools import partial

import anyio
from anyio.lowlevel import checkpoint

import kshare.fast.coarse_clock as coarse_clock
from kshare.client.record import BatchIterator
from kshare.engine.notifier import Notifier
from kshare.worker.functions.cancellation import forget_cancellation, is_worker_cancelled
from kshare.worker.records.delivery import Delivery
from kshare.worker.rules.tables import are_called_directly
from kshare.worker.run.pipeline import Pipeline
from kshare.worker.run.processing import unless_cancelled
from kshare.worker.run.slots import ScopeLeft, Slot, Slots
from kshare.worker.run.time_slice import EMPTY, SUSPENDED, TimeSlice

_SLICE_MS = 5
"""After this time, a slot lets other tasks run, however fast the handler is."""


class SlotWork:
    """`run` is the work of `slots`. `wants` is sent when a batch is used up."""

    def __init__(self, pipeline: Pipeline, wants: Notifier) -> None:
        handler = pipeline.handler
        self._route = handler.route
        self._options = handler.options
        self._pipeline = pipeline
        self._queue = pipeline.queue
        self._admission = pipeline.admission
        self._processing = pipeline.processing
        self._counts = handler.counts
        self._clock = handler.clock
        self._changed = handler.changed
        self._wants = wants
        self._host = handler.host
        self._check_leases = handler.host.check_leases
        self._is_plain = pipeline.caller.is_plain and are_called_directly(handler.options)
        self._work = self._batches if handler.route.is_batch else self._records
        self._collector: anyio.Event | None = None
        """While a slot collects a batch: sent when there are more records."""
        self._running: TimeSlice | None = None
        """While handlers are called in a time slice. Only one can be: they don't suspend."""

    async def run(self, slots: Slots, slot: Slot) -> None:
        while True:
            try:
                with anyio.CancelScope() as slot.scope:
                    slot.note_scope()
                    try:
                        await self._go_on(slots, slot)
                    except ScopeLeft:
                        slot.leaves_task = True
                        return  # which raises RuntimeError: the scope of the handler should have been left before
            except asyncio.CancelledError:
                if is_worker_cancelled():
                    raise
                # A handler has let its task be cancelled later, when it had returned: the slot goes on.
                forget_cancellation()
            slot.has_ended = True
            await self._processing.cancelled(slot)
            slot.clear()
            self._admission.on_end()

    async def _go_on(self, slots: Slots, slot: Slot) -> None:
        if slot.rest is not None:
            rest, slot.rest = slot.rest, None
            await rest()
            slot.clear()
            self._admission.on_end()
        await self._work(slots, slot)

    def halt(self) -> None:
        """The handler is stopped. If it has done that itself, in a time slice, nothing more is started in it."""
        if self._running is not None:
            self._running.is_halted = True

    # --- records

    async def _records(self, slots: Slots, slot: Slot) -> None:
        """Process records, one after another."""
        queue, admission = self._queue, self._admission
        time_slice = (
            TimeSlice(self._pipeline.caller.plain(), self._pipeline.caller.check_result)
            if self._is_plain
            else None
        )
        until = 0
        while True:
            if slots.has_too_many_awake:
                await slots.sleep()
                self._check_leases()
            if coarse_clock.coarse_ms() > until:
                await checkpoint()
                self._check_leases()
                until = coarse_clock.coarse_ms() + _SLICE_MS
            if (
                time_slice is not None
                and admission.is_unrestricted
                and (records := queue.first_batch()) is not None
            ):
                await self._run_slice(slots, slot, time_slice, records, until)
                continue
            item = queue.next() if admission.is_unrestricted else await admission.next()
            if item is None:
                self._changed.send()
                await slots.sleep()
                self._check_leases()
                until = coarse_clock.coarse_ms() + _SLICE_MS
                continue
            self._wake_another(slots)
            delivery = self._route.delivery_of(item)
            slot.begin(delivery, self._clock(), self._counts.done)
            await self._processing.one(slot, delivery)
            slot.clear()
            admission.on_end()

    async def _run_slice(
        self, slots: Slots, slot: Slot, time_slice: TimeSlice, records: BatchIterator, until: int
    ) -> None:
        """Process records of a batch until the handler suspends or fails, and in that case what has become of it."""
        try:
            try:
                self._running = time_slice
                ended = time_slice.run(records, until)
            finally:  # before anything is awaited: a handler that has suspended may take long
                self._running = None
                self._counts.done += time_slice.done
                time_slice.done = 0
            if ended == EMPTY:
                self._queue.drop_batch(records)
                self._wants.send()
            elif ended == SUSPENDED:
                record = slot.item = time_slice.record
                assert record is not None, "suspended"
                slot.note_as_seen(self._clock(), self._counts.done)
                self._wake_another(slots)
                self._pipeline.caller.check_result(await time_slice.suspended())
                slot.is_settling = True
                await unless_cancelled(slot)
                record.accept()
                self._counts.done += 1
        except BaseException as error:
            slot.is_settling = True
            slot.item = time_slice.record
            self._processing.require_own_scope(slot, partial(self._slice_ended, slot, error))
            await self._slice_ended(slot, error)
        slot.clear()
        self._processing.require_own_scope(slot)

    async def _slice_ended(self, slot: Slot, error: BaseException) -> None:
        """A time slice has ended with an exception, which may be that of reading a record."""
        record = slot.item
        if not isinstance(error, Exception):
            await self._processing.ended(slot, error)
        elif record is None:
            self._queue.log_unreadable(error)
        else:
            await self._processing.failed(slot, self._route.delivery_of(record), error)

    def _wake_another(self, slots: Slots) -> None:
        """This slot is about to wait for its handler, so another one should go on."""
        if slots.has_free and self._queue.has_ready:
            slots.wake_one()

    # --- batches

    async def _batches(self, slots: Slots, slot: Slot) -> None:
        """Collect records, and process them together. One slot at a time collects."""
        while True:
            if self._collector is None and await self._collect(slot):
                self._host.wake()
                slot.note_as_seen(self._clock(), self._counts.done)
                await self._processing.batch(slot)
                slot.clear()
                self._admission.on_end()
            else:
                slot.clear()
                self._changed.send()
                await slots.sleep()

    async def _collect(self, slot: Slot) -> bool:
        """Fill `slot.batch`. Returns False if there is nothing to process."""
        options, queue, admission = self._options, self._queue, self._admission
        deliveries: list[Delivery] = []
        slot.batch = deliveries
        slot.is_collecting = True
        self._collector = anyio.Event()
        try:
            deadline = None
            while len(deliveries) < options.batch_size:
                if admission.is_unrestricted:
                    item = queue.next()
                else:
                    item = await admission.next(deadline)
                if item is not None:
                    delivery = self._route.delivery_of(item)
                    if delivery.time_outs and deliveries:
                        queue.put_first(delivery)
                        break
                    deliveries.append(delivery)
                    if delivery.time_outs:  # alone, because it or its neighbours were too slow together
                        break
                    deadline = deadline or self._clock() + options.batch_wait
                elif deadline is None or self._clock() >= deadline:
                    break
                else:
                    with anyio.move_on_after(deadline - self._clock()):
                        await self._collector.wait()
                    self._collector = anyio.Event()
                if self._host.is_stopping and not queue.has_ready:
                    break
        finally:
            slot.is_collecting = False
            self._collector = None
        return bool(deliveries)

    def wake_collector(self) -> bool:
        """Tell the slot that collects a batch that there are more records. Returns False if none does."""
        if self._collector is None:
            return False
        self._collector.set()
        return True
