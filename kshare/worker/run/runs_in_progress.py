"""Reads from the slots of a handler what they are doing now. Nothing is noted for that while they work.

The times are those that the look-after task notes anyway, to enforce time limits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from kshare.worker.queue.work_queue import Item
from kshare.worker.records.delivery import Delivery
from kshare.worker.run.slots import Slot
from kshare.worker.watch.status import MOST_RUNS, RunState, RunStatus


def runs_in_progress(
    slots: Iterable[Slot], now: float, delivery_of: Callable[[Item], Delivery]
) -> tuple[tuple[RunStatus, ...], int]:
    """The longest runs, and how many there are in all."""
    busy = [(_seconds(slot, now), slot) for slot in slots if slot.current]
    longest = heapq.nlargest(MOST_RUNS, busy, key=lambda run: run[0])
    return tuple(_status(slot, seconds, delivery_of) for seconds, slot in longest), len(busy)


def _seconds(slot: Slot, now: float) -> float:
    """A state that nobody has seen yet has just begun."""
    return max(0.0, now - slot.seen_at) if slot.is_as_seen else 0.0


def _status(slot: Slot, seconds: float, delivery_of: Callable[[Item], Delivery]) -> RunStatus:
    current = slot.current
    assert current, "only of busy slots"
    first = current[0] if isinstance(current, list) else delivery_of(current)
    return RunStatus(
        topic=first.topic,
        partition=first.partition,
        offset=first.offset,
        records=len(current) if isinstance(current, list) else 1,
        delivery_count=first.delivery_count,
        attempt=first.attempt,
        state=_state(slot),
        seconds=seconds,
    )


def _state(slot: Slot) -> RunState:
    if slot.is_cancelled:
        return RunState.CANCELLED
    if slot.is_settling:
        return RunState.SETTLING
    if slot.is_collecting:
        return RunState.COLLECTING
    return RunState.WAITING if slot.is_waiting else RunState.RUNNING
