"""Defects to plant in a worker: a search that doesn't find them is of no use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

from kshare.worker.queue.work_queue import WorkQueue
from kshare.worker.records.delivery import Delivery
from kshare.worker.run.processing import Processing
from kshare.worker.settle.bounded_writes import BoundedWrites
from kshare.worker.settle.copies import Copies


def cancelled_handlers_count_as_done() -> Any:
    async def cancelled(self: Processing, delivery: Delivery, keeps: bool = False) -> None:
        delivery.is_over = True
        delivery.record.accept()

    return patch.object(Processing, "_cancelled", cancelled)


def results_are_written_after_the_record_is_accepted() -> Any:
    original = vars(Processing)["_write_results"]

    async def write_results(self: Processing, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            delivery.record.accept()
        await original(self, deliveries)

    return patch.object(Processing, "_write_results", write_results)


def unconfirmed_copies_count_as_written() -> Any:
    original = BoundedWrites.publish

    async def publish(self: BoundedWrites, *arguments: Any, **options: Any) -> Any:
        try:
            return await original(self, *arguments, **options)
        except Exception:
            return None

    return patch.object(BoundedWrites, "publish", publish)


def records_are_rejected_before_their_dead_letter() -> Any:
    original = Copies.move_to_dead_letters

    async def move(self: Copies, delivery: Delivery, *arguments: Any) -> Any:
        delivery.record.reject()
        return await original(self, delivery, *arguments)

    return patch.object(Copies, "move_to_dead_letters", move)


def what_is_held_is_forgotten() -> Any:
    """Its next attempt never begins."""
    return patch.object(WorkQueue, "bring_due", lambda self, now: None)


DEFECTS: dict[Callable[[], Any], str] = {
    cancelled_handlers_count_as_done: "its handler hasn't finished it",
    results_are_written_after_the_record_is_accepted: "before its result was confirmed",
    unconfirmed_copies_count_as_written: "before its dead letter was confirmed",
    records_are_rejected_before_their_dead_letter: "before its dead letter was confirmed",
    what_is_held_is_forgotten: "not everything can be settled",
}
"""What each breaks, as the search says it."""
