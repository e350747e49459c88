"""Defects to plant in workers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from kshare.producer.records import NewRecord
from kshare.summary_log import Summaries
from kshare.worker.queue.held_records import HeldBack
from kshare.worker.queue.key_lanes import KeyLanes
from kshare.worker.queue.work_queue import WorkQueue, record_of
from kshare.worker.records.delivery import Delivery
from kshare.worker.rules.decision import ACCEPT, Decision, RecordOutcome
from kshare.worker.rules.retry import Retry
from kshare.worker.run.admission import Admission
from kshare.worker.run.processing import Processing
from kshare.worker.run.slot_watch import SlotWatch
from kshare.worker.run.slots import Slots
from kshare.worker.settle.bounded_writes import BoundedWrites
from kshare.worker.settle.copies import Copies
from kshare.worker.settle.executor import Executor
from tests.simulation import consumer_defects
from tests.simulation.planting import Defect, nothing, replace

_numbers = count()


def results_are_not_written() -> None:
    async def write_results(self: Processing, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            delivery.take_results()
            if delivery.batch_results is not None:
                delivery.batch_results.on_written()

    replace(Processing, "_write_results", write_results)


def copies_are_taken_for_written() -> None:
    """Each fifth one."""
    original = BoundedWrites.publish

    async def publish(self: BoundedWrites, *arguments: Any, **options: Any) -> Any:
        if next(_numbers) % 5 == 4:
            return None
        return await original(self, *arguments, **options)

    replace(BoundedWrites, "publish", publish)


def cancelled_handlers_count_as_done() -> None:
    async def cancelled(self: Processing, delivery: Delivery, keeps: bool = False) -> None:
        delivery.is_over = True
        delivery.record.accept()

    replace(Processing, "_cancelled", cancelled)


def second_failures_count_as_done() -> None:
    original = vars(Processing)["_raised"]

    async def raised(self: Processing, delivery: Delivery, error: Exception) -> None:
        if delivery.attempt == 2 and delivery.decision is None:
            delivery.record.accept()
        else:
            await original(self, delivery, error)

    replace(Processing, "_raised", raised)


def records_are_accepted_first() -> None:
    original = vars(Processing)["_is_to_be_called"]

    async def is_to_be_called(self: Processing, delivery: Delivery) -> bool:
        is_called: bool = await original(self, delivery)
        if is_called and next(_numbers) % 10 == 9:
            delivery.record.accept()
        return is_called

    replace(Processing, "_is_to_be_called", is_to_be_called)


def keys_are_ignored() -> None:
    replace(KeyLanes, "enter", lambda lanes, key, item: True)


def held_records_are_passed() -> None:
    def leave(queue: Any, item: Any) -> bool:
        if queue._lane_of is None:
            return False
        following = queue._lanes.leave(queue._keys.pop(record_of(item), None))
        if following is None:
            return False
        queue._ready.append(following)
        return True

    replace(WorkQueue, "leave", leave)


def time_limits_are_ignored() -> None:
    replace(SlotWatch, "_cancel_slow", nothing)


def copies_follow_acceptance() -> None:
    original = Copies.move_to_retry_topic

    async def move(copies: Copies, delivery: Delivery, *arguments: Any, **options: Any) -> Any:
        if delivery.moved_to is None:
            delivery.record.accept()
        return await original(copies, delivery, *arguments, **options)

    replace(Copies, "move_to_retry_topic", move)


def results_follow_acceptance() -> None:
    original = vars(Processing)["_write_results"]

    async def write_results(self: Processing, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            if delivery.decision is None and delivery.moved_to is None:
                delivery.record.accept()
        await original(self, deliveries)

    replace(Processing, "_write_results", write_results)


def concurrency_is_ignored() -> None:
    replace(Slots, "has_free", property(lambda slots: True))
    replace(Slots, "has_too_many_awake", property(lambda slots: False))


def delays_are_ignored() -> None:
    add = HeldBack.add

    def add_now(held: HeldBack[Any], where: Any, offset: int, due_at: float, item: Any) -> None:
        add(held, where, offset, 0.0, item)

    replace(HeldBack, "add", add_now)


def pauses_are_ignored() -> None:
    replace(Admission, "pause", nothing)


def letters_count_as_kept() -> None:
    original = Copies._hand_over

    async def hand_over(copies: Any, keep: Any, delivery: Delivery, message: str) -> bool:
        if not await original(copies, keep, delivery, message):
            copies._settle(delivery.record.reject, delivery)
        return True

    replace(Copies, "_hand_over", hand_over)


def delayed_records_count_as_done() -> None:
    original = vars(Processing)["_returned"]

    async def returned(self: Processing, delivery: Delivery) -> None:
        if delivery.decision is not None and delivery.decision.outcome is RecordOutcome.HELD:
            delivery.decision = None
        await original(self, delivery)

    replace(Processing, "_returned", returned)


def attempts_are_miscounted() -> None:
    next_delay, most_attempts = Retry.next_delay, Retry.most_attempts

    def one_more(policy: Retry, error: BaseException, attempt: int, age: float, luck: float) -> float | None:
        return next_delay(policy, error, attempt - 1, age, luck)

    replace(Retry, "next_delay", one_more)
    replace(Retry, "most_attempts", lambda policy: most_attempts(policy) + 1)


def every_event_is_a_line() -> None:
    add = Summaries.add

    def add_due(summaries: Any, now: float, key: Any, *arguments: Any, **options: Any) -> Any:
        summaries._summaries.pop(key, None)
        return add(summaries, now, key, *arguments, **options)

    replace(Summaries, "add", add_due)


def copies_are_accepted_first() -> None:
    """Those in retry topics, when their handler is about to be called."""
    original = vars(Processing)["_is_to_be_called"]

    async def is_to_be_called(self: Processing, delivery: Delivery) -> bool:
        is_called: bool = await original(self, delivery)
        if is_called and delivery.context is not None:
            delivery.record.accept()
        return is_called

    replace(Processing, "_is_to_be_called", is_to_be_called)


def copies_have_no_key() -> None:
    original = BoundedWrites.publish

    async def publish(self: BoundedWrites, topic: str, record: NewRecord, partition: Any = None) -> Any:
        return await original(self, topic, record._replace(key=None), partition)

    replace(BoundedWrites, "publish", publish)


def copies_have_only_our_headers() -> None:
    original = BoundedWrites.publish

    async def publish(self: BoundedWrites, topic: str, record: NewRecord, partition: Any = None) -> Any:
        ours = [header for header in record.headers if header[0].startswith("__")]
        return await original(self, topic, record._replace(headers=ours), partition)

    replace(BoundedWrites, "publish", publish)


def done_records_are_given_back() -> None:
    """Each tenth one, the first time."""
    original = Delivery.accept_after_handler

    def accept_after_handler(delivery: Delivery) -> None:
        if next(_numbers) % 10 == 9 and delivery.delivery_count == 1 and not delivery.has_unwritten:
            delivery.record.release()
            delivery.decision = ACCEPT
        else:
            original(delivery)

    replace(Delivery, "accept_after_handler", accept_after_handler)


def first_failures_do_not_count() -> None:
    original = vars(Executor)["_hold"]

    def hold(self: Executor, delivery: Delivery, decision: Decision) -> None:
        is_first = delivery.attempt == 1 and not delivery.is_repeated
        original(self, delivery, decision._replace(counts=decision.counts and not is_first))

    replace(Executor, "_hold", hold)


def workers_go_on_with_epochs() -> None:
    consumer_defects.epochs_outlive_errors()


DEFECTS = [
    Defect(plant, "workers", finding, what, seed)
    for plant, finding, what, seed in (
        (results_are_not_written, "accepted without its result", "doesn't write results", 132),
        (copies_are_taken_for_written, "lost", "takes each fifth copy for written", 35),
        (cancelled_handlers_count_as_done, "accepted early", "accepts records of cancelled handlers", 765),
        (
            second_failures_count_as_done,
            "accepted early",
            "accepts a record whose second attempt fails",
            1596,
        ),
        (records_are_accepted_first, "accepted early", "accepts records before their handler runs", 1006),
        (keys_are_ignored, "out of order", "lets records of a key run at once", 35),
        (
            held_records_are_passed,
            "out of order",
            "lets others of a key pass a record that is tried again",
            538,
        ),
        (time_limits_are_ignored, "ran too long", "lets handlers run beyond their time limit", 765),
        (copies_follow_acceptance, "accepted early", "accepts records before their copy is written", 6),
        (
            results_follow_acceptance,
            "accepted without its result",
            "accepts records before their result",
            132,
        ),
        (concurrency_is_ignored, "too many at once", "runs more handlers than `concurrency`", 35),
        (delays_are_ignored, "too soon", "tries records again without their delay", 7),
        (pauses_are_ignored, "begun in a pause", "goes on in a pause", 132),
        (letters_count_as_kept, "lost", "settles dead letters that couldn't be kept", 131),
        (delayed_records_count_as_done, "accepted early", "accepts records that their handler delays", 203),
        (every_event_is_a_line, "noisy", "logs a line for each event", 35),
        (attempts_are_miscounted, "tried too often", "tries records once more than it was told", 1006),
        (copies_are_accepted_first, "accepted early", "accepts copies before their handler runs", 82),
        (copies_have_no_key, "wrong copy", "writes copies without the key of their record", 35),
        (copies_have_only_our_headers, "wrong copy", "writes copies without the headers of their record", 35),
        (done_records_are_given_back, "done twice", "releases records that are done", 109),
        (first_failures_do_not_count, "tried too often", "doesn't count the first attempt", 27),
        (workers_go_on_with_epochs, "wrong epoch", "goes on with the epoch of a session that has ended", 472),
    )
]
