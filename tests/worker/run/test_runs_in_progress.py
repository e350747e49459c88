"""The state of a slot, and for how long it has been in it."""

from __future__ import annotations

import anyio
import pytest

from kshare.client.made_records import made_record
from kshare.worker.queue.work_queue import Item
from kshare.worker.records.delivery import Delivery
from kshare.worker.run.runs_in_progress import runs_in_progress
from kshare.worker.run.slots import Slot
from kshare.worker.watch.status import RunState, RunStatus


def delivery_of(item: Item) -> Delivery:
    return item if isinstance(item, Delivery) else Delivery(item, "g", 5)


def busy(since: float = 0.0) -> Slot:
    slot = Slot()
    slot.item = slot.delivery = delivery_of(made_record("orders", b"1"))
    slot.note_as_seen(since, 0)
    return slot


def only(slot: Slot, now: float = 10.0) -> RunStatus:
    (run,), count = runs_in_progress([Slot(), slot], now, delivery_of)
    assert count == 1
    return run


def test_seconds_count_from_when_it_was_seen() -> None:
    assert only(busy(since=4.0)).seconds == 6.0
    assert only(busy(since=11.0)).seconds == 0.0


def test_what_was_not_seen_yet_has_just_begun() -> None:
    slot = busy()
    slot.is_settling = True
    assert (only(slot).state, only(slot).seconds) == (RunState.SETTLING, 0.0)


def test_a_plain_record_is_a_first_attempt() -> None:
    slot = Slot()
    slot.item = made_record("orders", b"1")
    assert (only(slot).state, only(slot).attempt, only(slot).topic) == (RunState.RUNNING, 1, "orders")


def test_states() -> None:
    slot = busy()
    assert slot.delivery is not None
    slot.delivery.is_waiting = True
    assert only(slot).state is RunState.WAITING
    slot.is_settling = True
    assert only(slot).state is RunState.SETTLING


@pytest.mark.anyio
async def test_a_cancelled_run(anyio_backend: str) -> None:
    slot = busy()
    slot.scope = anyio.CancelScope()
    slot.cancel()
    assert only(slot).state is RunState.CANCELLED


def test_batches() -> None:
    slot = Slot()
    slot.batch = []
    slot.is_collecting = True
    assert runs_in_progress([slot], 1.0, delivery_of) == ((), 0)
    slot.batch += [delivery_of(made_record("orders", b"1", offset=number)) for number in (4, 5)]
    assert (only(slot).state, only(slot).offset, only(slot).records) == (RunState.COLLECTING, 4, 2)
