"""Ends a handler: finishes what is in hand until a deadline, then cancels, and hands back the rest."""

from __future__ import annotations

import logging

import anyio

from kshare.wording import counted
from kshare.worker.functions.concurrently import for_each
from kshare.worker.records.delivery import Delivery
from kshare.worker.run.pipeline import Pipeline
from kshare.worker.run.slot_watch import SlotWatch
from kshare.worker.run.slots import Slots

log = logging.getLogger("kshare.worker")

_LOOK_AGAIN_S = 0.1
_CANCEL_GRACE_S = 5.0
"""How long cancelled handlers may take to end."""
LAST_WRITES_S = 10.0
"""How long copies may take to be written, after the time for handlers is over."""


class Draining:
    """`run` once; `abandon` at any time, before it is cancelled."""

    def __init__(
        self,
        pipeline: Pipeline,
        slots: Slots,
        watch: SlotWatch,
        drain_timeout: float,
    ) -> None:
        self._handler = pipeline.handler
        self._host = pipeline.handler.host
        self._clock = pipeline.handler.clock
        self._pipeline = pipeline
        self._slots = slots
        self._watch = watch
        self._drain_timeout = drain_timeout
        self._waiting: list[Delivery] = []
        """What the queue had at the deadline, to be handed back."""
        self._is_abandoned = False

    async def run(self) -> None:
        """Its consumers are paused already."""
        await self._host.look_for_limits()  # what is given back may be archived by a limit that was lowered
        self._pipeline.admission.end()
        await self._until_idle()
        await self._host.look_for_limits()
        self._pipeline.admission.hold_up()
        self._log_given_up(f"drain_timeout: {self._drain_timeout:g} s", self._slots.cancel_handlers())
        self._pipeline.writes.end_in(LAST_WRITES_S)
        executor = self._pipeline.executor
        first: list[tuple[Delivery, float]] = []
        later: list[tuple[Delivery, float]] = []
        for waiting in self._take_waiting():
            (first if executor.must_be_copied(*waiting) else later).append(waiting)
            self._waiting.append(waiting[0])
        async with anyio.create_task_group() as tasks:
            # Now: what is being settled may take all the time that there is to write copies.
            tasks.start_soon(for_each, first, executor.hand_back)
            await self._until_settled()
        await self._host.look_for_limits()
        executor.is_ending = True
        self._release_what_is_stuck()
        stuck = [(delivery,) for slot in self._slots.all for delivery in self._watch.given_up(slot)]
        rest = [*later, *self._take_waiting()]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(for_each, stuck, self._pipeline.processing.settle_cancelled)
            tasks.start_soon(for_each, rest, executor.hand_back)

    def abandon(self) -> None:
        """Before it is cancelled: copies that are being written would be finished otherwise."""
        if self._is_abandoned:
            return
        self._is_abandoned = True
        self._pipeline.writes.end_in(0.0)
        calls, executor = self._slots.calls, self._pipeline.executor
        executor.is_abandoned = True
        self._log_given_up("it was told to stop again", len(calls))
        deliveries_of = self._pipeline.processing.deliveries_of
        in_hand = [
            *self._waiting,
            *self._pipeline.queue.in_hand(),
            *(delivery for slot in self._slots.all for delivery in deliveries_of(slot)),
        ]
        for delivery in {delivery.record: delivery for delivery in in_hand}.values():
            executor.on_abandoned(delivery)
        for slot in calls:  # not when they have ended, which they may never do
            self._watch.give_up(slot, deliveries_of(slot))
            for delivery in deliveries_of(slot):
                executor.release_at_once(delivery)

    async def _until_idle(self) -> None:
        half = self._clock() + self._drain_timeout / 2
        with anyio.move_on_after(self._drain_timeout):
            while not self._host.is_idle():
                if self._clock() >= half:
                    self._watch.cancel_blocking(self._drain_timeout)
                changed = self._handler.changed.next()
                self._host.wake()
                with anyio.move_on_after(_LOOK_AGAIN_S):
                    await changed.wait()

    async def _until_settled(self) -> None:
        """Handlers have a short time after they were cancelled, what has to be written has more."""
        now = self._clock()
        until, until_settled = now + _CANCEL_GRACE_S, now + LAST_WRITES_S + _CANCEL_GRACE_S
        while self._slots.busy or self._pipeline.settling:
            if self._clock() >= (until_settled if self._slots.settling or self._pipeline.settling else until):
                break
            await anyio.sleep(0.01)

    def _release_what_is_stuck(self) -> None:
        executor = self._pipeline.executor
        for slot in self._slots.all:
            if slot.is_settling or slot.has_ended:
                for delivery in self._pipeline.processing.deliveries_of(slot):
                    self._watch.log_stuck(slot, delivery)
                    executor.on_abandoned(delivery)
                    executor.release_at_once(delivery)

    def _take_waiting(self) -> list[tuple[Delivery, float]]:
        """What isn't being processed, with the seconds until it may be."""
        now = self._clock()
        return [(delivery, max(0.0, due_at - now)) for delivery, due_at in self._pipeline.queue.take_all()]

    def _log_given_up(self, reason: str, calls: int) -> None:
        if calls:
            log.warning(
                "handler %s: stopped before its calls had ended (%s): %s cancelled, and the records released, which "
                "costs each a delivery; plain functions can't be cancelled, and their results don't count",
                self._handler.route.name,
                reason,
                counted(calls, "call"),
            )
