"""Defects to plant in workers: a judge that doesn't find them is of no use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from kshare.worker.bounded_writes import BoundedWrites
from kshare.worker.delivery import Delivery
from kshare.worker.outcomes import Outcomes

_numbers = count()


def results_are_not_written() -> None:
    async def write_results(self: Outcomes, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            delivery.take_results()
            if delivery.batch_results is not None:
                delivery.batch_results.on_written()

    Outcomes.write_results = write_results  # type: ignore[method-assign]


def copies_are_taken_for_written() -> None:
    """Each fifth copy."""
    original = BoundedWrites.publish

    async def publish(self: BoundedWrites, *arguments: Any, **options: Any) -> Any:
        if next(_numbers) % 5 == 4:
            return None
        return await original(self, *arguments, **options)

    BoundedWrites.publish = publish  # type: ignore[method-assign]


def cancelled_handlers_count_as_done() -> None:
    async def on_cancelled(self: Outcomes, delivery: Delivery, *, keeps: bool = False) -> None:
        delivery.is_over = True
        delivery.record.accept()

    Outcomes.on_cancelled = on_cancelled  # type: ignore[method-assign]


def second_failures_count_as_done() -> None:
    original = Outcomes.on_exception

    async def on_exception(self: Outcomes, delivery: Delivery, error: Exception) -> None:
        if delivery.attempt == 2 and delivery.decision is None:
            delivery.record.accept()
        else:
            await original(self, delivery, error)

    Outcomes.on_exception = on_exception  # type: ignore[method-assign]


def records_are_accepted_first() -> None:
    original = Outcomes.may_process

    async def may_process(self: Outcomes, delivery: Delivery) -> bool:
        may = await original(self, delivery)
        if may and next(_numbers) % 10 == 9:
            delivery.record.accept()
        return may

    Outcomes.may_process = may_process  # type: ignore[method-assign]


DEFECTS: dict[str, tuple[Callable[[], None], str]] = {
    one.__name__: (one, finding)
    for one, finding in (
        (results_are_not_written, "accepted without its result"),
        (copies_are_taken_for_written, "lost"),
        (cancelled_handlers_count_as_done, "accepted early"),
        (second_failures_count_as_done, "accepted early"),
        (records_are_accepted_first, "accepted early"),
    )
}
"""Each, and which of the judge's findings it causes."""
