"""Looks after what slots are doing: cancels what takes too long or has lost its lock, and gives up what goes on then.

Decides when a call has had its time. What becomes of its records is decided by the rules, as for all others.
"""

from __future__ import annotations

import logging

from kshare.client.record import lost_spans_of
from kshare.worker.queue.work_queue import Item, record_of
from kshare.worker.records.delivery import Delivery
from kshare.worker.run.pipeline import Pipeline
from kshare.worker.run.slots import Slot, Slots
from kshare.worker.watch.log_context import log_fields

_STUCK_S = 10.0
"""How long a handler may take to end when it was cancelled, before its records are given back."""
_SETTLE_S = 60.0
"""How long settling a record may take at most, after its handler has ended."""


class SlotWatch:
    def __init__(self, pipeline: Pipeline, slots: Slots) -> None:
        self._handler = pipeline.handler
        self._pipeline = pipeline
        self._slots = slots
        self._clock = pipeline.handler.clock

    def look(self) -> None:
        now, counts = self._clock(), self._handler.counts
        for slot in self._slots.all:
            current = slot.current
            if slot.is_waiting or not slot.is_as_seen:
                slot.note_as_seen(now, counts.done)
            elif current is None:
                continue
            elif slot.is_cancelled:
                slot.cancelled_at = slot.cancelled_at or now
                # What is kept isn't given back: that would cost deliveries, while what it depends on is down.
                if now - slot.cancelled_at > _STUCK_S and not slot.keeps:
                    for delivery in self.given_up(slot):
                        self._pipeline.start_settling(self._pipeline.processing.settle_cancelled, delivery)
            elif now - slot.seen_at > self._limit_of(slot):
                self._cancel_slow(slot)
            elif slot.batch is None and slot.item is not None and _is_lost(slot.item):
                slot.cancel()

    def _cancel_slow(self, slot: Slot) -> None:
        limit = self._limit_of(slot)
        self._handler.summary.event(
            logging.WARNING,
            f"settling records took longer than {limit:g} s, and was cancelled"
            if slot.is_settling
            else f"handlers took longer than time_limit ({limit:g} s), and were cancelled",
            slot.told,
            log_fields(self._handler.route.delivery_of(slot.item)) if slot.item is not None else None,
        )
        if not slot.is_settling:
            self._pipeline.admission.on_timed_out(slot, self._deliveries_of(slot))
        slot.cancel()

    def cancel_blocking(self, drain_timeout: float) -> None:
        """While the worker ends: cancel what untried records wait for that mustn't be given back once more. Half of the
        time is for the calls that are running, and the other half is shared by these."""
        queue, is_meant = self._pipeline.queue, self._pipeline.admission.must_be_tried
        for_all = 0 if self._slots.has_free else -(-queue.count_untried(is_meant) // self._slots.most)
        now = self._clock()
        for slot in self._slots.calls:
            deliveries = [] if slot.is_waiting or slot.is_cancelled else self._deliveries_of(slot)
            behind = max(
                (queue.count_untried_behind(delivery, is_meant) for delivery in deliveries), default=0
            )
            waiting = max(behind, for_all)
            if deliveries and waiting and now - slot.seen_at >= drain_timeout / 2 / (waiting + 1):
                self._handler.summary.event(
                    logging.WARNING,
                    "handlers were cancelled before drain_timeout, because records that wait for them have too few "
                    "deliveries left to be released untried",
                    slot.told,
                    log_fields(deliveries[0]),
                )
                slot.cancel()

    def given_up(self, slot: Slot) -> list[Delivery]:
        """What a slot has whose handler goes on although it was cancelled, to be handed back. Once for each call."""
        if slot.is_given_up or slot.is_settling or slot.has_ended:
            return []
        going = [*slot.timed_out] or self._deliveries_of(slot)
        if going:
            self.log_stuck(slot, going[0])
            self.give_up(slot, going)
        return going

    def give_up(self, slot: Slot, deliveries: list[Delivery]) -> None:
        """Its handler goes on, and can no longer settle anything. Others of the same key wait for its end."""
        slot.is_given_up = True
        for delivery in deliveries:
            delivery.is_over = True
            self._pipeline.queue.note_going(delivery)

    @property
    def is_stuck(self) -> bool:
        """Whether nothing can be started, because all slots are taken by calls that were given up."""
        slots = self._slots
        return len(slots.all) >= slots.most and all(slot.is_given_up for slot in slots.all)

    def log_stuck(self, slot: Slot, delivery: Delivery) -> None:
        self._handler.summary.event(
            logging.ERROR,
            "functions continue although they were cancelled, so their records are released: until they end, others "
            "can't run in their place, and the worker can't end (does a bare `except` catch the cancellation?)",
            slot.told,
            log_fields(delivery),
        )

    def _limit_of(self, slot: Slot) -> float:
        """How long it may go on with what it is doing. Writes end before that."""
        time_limit = self._handler.options.time_limit
        return max(time_limit, _SETTLE_S) if slot.is_settling else time_limit

    def _deliveries_of(self, slot: Slot) -> list[Delivery]:
        return self._pipeline.processing.deliveries_of(slot)


def _is_lost(item: Item) -> bool:
    """Whether its lock was lost."""
    record = record_of(item)
    return bool(lost_spans_of(record.batch, record.offset, record.offset))
