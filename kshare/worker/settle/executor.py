"""Carries out what the rules decide about records, counts it, and tells observers.

A copy is written and confirmed before its record is settled. If it can't be written, the rules decide again.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from kshare.errors import AcknowledgeError, KshareError
from kshare.surroundings import new_random
from kshare.worker.functions.user_functions import shortened
from kshare.worker.host import RunningHandler
from kshare.worker.queue.work_queue import WorkQueue, is_held
from kshare.worker.records.delivery import Delivery
from kshare.worker.rules import tables
from kshare.worker.rules.decision import Decision, RecordOutcome
from kshare.worker.rules.facts import Facts
from kshare.worker.rules.retry_topics import RetryTopics
from kshare.worker.rules.window import may_hand_back
from kshare.worker.settle.copies import Copies, Written


class Executor:
    """For one handler."""

    def __init__(self, handler: RunningHandler, queue: WorkQueue, copies: Copies) -> None:
        self._handler = handler
        self._limits = handler.limits
        self._queue = queue
        self._copies = copies
        self._counts = handler.counts
        self._watch = handler.watch
        self._clock = handler.clock
        self._random = new_random()
        self.is_ending = False
        """Whether nothing can be held any more."""
        self.is_abandoned = False
        """Whether the consumer releases all that it has: what that costs is counted already."""

    # --- facts

    def facts(self, delivery: Delivery) -> Facts:
        """What is known about a record whose handler wasn't called."""
        facts = Facts(self._handler.options, self._limits)
        facts.delivery_count = delivery.delivery_count
        facts.attempt = delivery.attempt
        facts.now_ms = self._handler.wall_clock() * 1000
        facts.timestamp = delivery.timestamp
        facts.chosen = delivery.decision
        facts.can_renew = self._handler.host.can_renew
        facts.luck = self._random.random()
        facts.tiers = self._tiers_of(delivery)
        if (context := delivery.context) is not None:
            facts.copy_due_ms, facts.copy_attempts = context.due_ms, context.attempts
            facts.apart, facts.unfinished = context.apart, context.unfinished
            facts.is_of_run = bool(context.run)
        facts.is_moved = delivery.moved_to is not None
        facts.is_in_hand = is_open(delivery)
        if delivery.pending is not None:
            facts.pending, facts.refusals = delivery.pending, delivery.refusals
        facts.is_ending, facts.is_abandoned = self.is_ending, self.is_abandoned
        return facts

    # --- what is decided apart from handlers

    async def hand_back(self, delivery: Delivery, due_in_s: float = 0.0) -> None:
        """Release the record. If that would archive it, or forget its attempts or its delay, move it instead."""
        facts = self.facts(delivery)
        facts.due_in_s = due_in_s
        await self.carry_out(delivery, tables.hand_back(facts))

    async def make_way(self, delivery: Delivery) -> None:
        """A held record pins too much of the window, or too many are held."""
        await self.carry_out(delivery, tables.make_way(self.facts(delivery)))

    def has_retry_topic(self, delivery: Delivery) -> bool:
        """Whether copies of it may be written to a retry topic."""
        return self._tiers_of(delivery) is not None

    def _tiers_of(self, delivery: Delivery) -> RetryTopics | None:
        return None if delivery.is_stray or delivery.is_oversized else self._handler.options.tiers

    def may_hand_back(self, delivery: Delivery) -> bool:
        """Whether the record may be handed back only because it pins too much, or its attempts are kept in a copy."""
        return may_hand_back(self.facts(delivery), was_tried=delivery.was_tried)

    def must_be_copied(self, delivery: Delivery, due_in_s: float) -> bool:
        """Whether `hand_back` writes a copy, whatever the group's limits are then."""
        facts = self.facts(delivery)
        facts.due_in_s = due_in_s
        return tables.must_be_copied(facts)

    # --- carrying out

    async def carry_out(self, delivery: Delivery, decision: Decision) -> RecordOutcome:
        """Returns what has become of the record in the end."""
        if decision.outcome is RecordOutcome.ACCEPTED:
            return self._accept(delivery, decision)
        while True:
            following = await self._do(delivery, decision)
            if following is None:
                break
            decision = following
        if delivery.decided is None or not delivery.is_done_with:
            delivery.decided = decision
        return delivery.decided.outcome

    async def _do(self, delivery: Delivery, decision: Decision) -> Decision | None:
        """Returns what is to be done instead, because a copy couldn't be written."""
        match decision.outcome:
            case RecordOutcome.HELD:
                self._hold(delivery, decision)
            case RecordOutcome.MOVED:
                return await self._move(delivery, decision)
            case RecordOutcome.DEAD_LETTER | RecordOutcome.REJECTED:
                return await self._give_up(delivery, decision)
            case RecordOutcome.RELEASED:
                self._release(delivery)
            case RecordOutcome.LOST if decision.reason:
                self._archive(delivery, decision)
            case RecordOutcome.LOST:
                assert decision.error is not None, "rules say why"
                self.on_lost(delivery, decision.error)
            case RecordOutcome.FILTERED:
                delivery.accept()
                self._counts.filtered += 1
                self._watch.settled(decision.outcome, delivery)
            case RecordOutcome.SUPERSEDED:
                delivery.record.accept()
            case RecordOutcome.KEPT if decision.pending is not None:
                self._queue.hold(delivery, delivery.pending_at)
            case RecordOutcome.KEPT if decision.is_again:
                self._try_early(delivery)
        return None

    def _accept(self, delivery: Delivery, decision: Decision) -> RecordOutcome:
        """In the same step in which its handler has returned, so that nothing can come between."""
        try:
            if delivery.decision is None:
                delivery.accept_after_handler()
        except AcknowledgeError as problem:
            self.on_lost(delivery, problem)
            return RecordOutcome.LOST
        delivery.decided = decision
        self._counts.done += decision.counts
        self._watch.settled(RecordOutcome.ACCEPTED, delivery)
        return RecordOutcome.ACCEPTED

    def _hold(self, delivery: Delivery, decision: Decision) -> None:
        again = delivery.next_attempt(counts=decision.counts)
        due_at = self._clock() + decision.delay
        if decision.pending is not None:
            again.pending, again.pending_at, again.refusals = decision.pending, due_at, delivery.refusals + 1
        else:
            self._counts.held += 1
            self._watch.settled(RecordOutcome.HELD, delivery, decision.error)
        self._queue.hold(again, due_at)

    async def _move(self, delivery: Delivery, decision: Decision) -> Decision | None:
        began = self._clock()
        written = await self._copies.move_to_retry_topic(delivery, decision)
        if written is not Written.YES:
            return self._not_written(delivery, decision, written)
        self._counts.moved += 1
        self._watch.settled(RecordOutcome.MOVED, delivery, decision.error, began)
        return None

    async def _give_up(self, delivery: Delivery, decision: Decision) -> Decision | None:
        began = self._clock()
        became = await self._copies.move_to_dead_letters(delivery, decision)
        if became is None:
            return self._not_written(delivery, decision, Written.NO)
        delivery.decided = decision._replace(outcome=became)
        self._counts.dead += 1
        self._watch.settled(became, delivery, decision.error or decision.reason, began)
        self._log_given_up(delivery, became, decision.reason)
        return None

    def _not_written(self, delivery: Delivery, failed: Decision, written: Written) -> Decision:
        if written is Written.TOO_LARGE and not failed.is_again and delivery.moved_to is None:
            delivery.is_oversized, delivery.pending = True, None
        facts = self.facts(delivery)
        facts.failed, facts.is_too_large = failed, written is Written.TOO_LARGE
        return tables.not_written(facts)

    def _try_early(self, delivery: Delivery) -> None:
        cause = "records are retried early, because they pin too much of the in-flight window"
        self._handler.log(logging.WARNING, cause, delivery)
        self._queue.put(delivery)

    def _release(self, delivery: Delivery) -> None:
        if delivery.moved_to is not None:
            delivery.moved_to = None  # so that its last copy is processed, when it is due
            self._counts.released += 1
            return
        try:
            if delivery.was_tried or delivery.context is not None:
                delivery.record.release()
                if delivery.delivery_count >= self._limits.deliveries:
                    self._handler.log_record(logging.ERROR, _GIVEN_BACK_LAST, delivery)
            elif not self._handler.host.release_unseen(delivery.record):
                raise AcknowledgeError("before it was its turn")
            self._counts.released += 1
            self._watch.settled(RecordOutcome.RELEASED, delivery)
        except AcknowledgeError as problem:
            self.on_lost(delivery, problem)

    def _archive(self, delivery: Delivery, decision: Decision) -> None:
        """Nothing can be done any more: whatever becomes of this delivery, it is the last."""
        self._count_lost(delivery, decision.error)
        self._handler.log_record(logging.ERROR, decision.reason, delivery)

    def on_abandoned(self, delivery: Delivery) -> None:
        """It is about to be released at once, whatever was to become of it. After the last delivery, nobody gets it
        again."""
        if not is_held(delivery) or delivery.delivery_count < self._limits.deliveries:
            return
        problem = KshareError("the worker ended before it was settled, and this was its last delivery")
        self._count_lost(delivery, problem)
        self._handler.log_record(logging.ERROR, _GIVEN_BACK_LAST, delivery)

    def release_at_once(self, delivery: Delivery) -> None:
        """Without what `hand_back` does to keep its attempts. Its handler was cancelled, and may still run."""
        if delivery.moved_to is None and is_held(delivery):
            with suppress(AcknowledgeError):
                delivery.record.release()

    def on_lost(self, delivery: Delivery, problem: BaseException) -> None:
        self._count_lost(delivery, problem)
        if delivery.delivery_count >= self._limits.deliveries:
            # The broker that has them delivers them again only if it has lost count, because leaders moved.
            cause = "records lost their locks in their last delivery: the broker archives them"
            self._handler.log(logging.ERROR, cause, delivery, problem)
        else:
            cause = "records lost their locks, and will be redelivered"
            self._handler.log(logging.WARNING, cause, delivery, problem)

    def _count_lost(self, delivery: Delivery, problem: BaseException | None) -> None:
        delivery.decided = Decision(RecordOutcome.LOST, error=problem)
        self._counts.lost += 1
        self._watch.settled(RecordOutcome.LOST, delivery, problem)

    # --- the log

    def _log_given_up(self, delivery: Delivery, became: RecordOutcome, reason: str) -> None:
        kept = self._handler.options.dead_letters
        cause = (
            "rejected"
            if became is RecordOutcome.REJECTED
            else f"dead letters in {kept}"
            if isinstance(kept, str)
            else "dead letters"
        )
        detail = shortened(reason)
        if delivery.decision is None or delivery.decision.outcome is not RecordOutcome.REJECTED:
            # A line for each reason of ours. Those of users may all differ.
            cause, detail = f"{cause}: {detail}", ""
        self._handler.log_record(logging.WARNING, cause, delivery, detail)


_GIVEN_BACK_LAST = "given back after their last delivery; the broker archives them"


def is_open(delivery: Delivery) -> bool:
    """Whether it is up to us what becomes of the record."""
    return delivery.moved_to is not None or is_held(delivery)
