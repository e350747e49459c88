"""What the judge of workers makes of the runs of handlers."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.integration.consumer_storm.fault_book import Acquired
from tests.simulation.runs import Redelivered, Rules, Runs

TOPIC, KEY = "orders", b"1"
pytestmark = pytest.mark.anyio


class Record:
    topic = TOPIC


def delivery(offset: int) -> Any:
    """The first delivery and attempt of a record, by what it says."""
    return SimpleNamespace(
        record=Record(),
        topic=TOPIC,
        partition=0,
        offset=offset,
        key=KEY,
        attempt=1,
        delivery_count=1,
        unfinished=0,
        redelivered=False,
    )


def acquired(first: int, last: int) -> Acquired:
    return Acquired(0.0, 0.0, "member", 0, first, last, 1, None)


def new_runs(*rows: Acquired) -> tuple[Runs, dict[str, list[str]]]:
    """Runs, and where they put what is wrong."""
    rules = Rules(
        topic=TOPIC,
        concurrency=1,
        attempts=3,
        delays=(0.1,),
        time_limit_s=1.0,
        is_ordered=True,
        keeps_delays=lambda: True,
        has_copies=False,
        counts_all=True,
        pauses_after_s=0.0,
    )
    found: dict[str, list[str]] = defaultdict(list)
    return Runs(rules, lambda: 0.0, lambda: 0, found, Redelivered(rows).has), found


def run(runs: Runs, offset: int) -> None:
    with runs.run([delivery(offset)]):
        pass


def test_a_record_that_begins_behind_a_later_one_is_out_of_order() -> None:
    runs, found = new_runs(acquired(1, 2))
    run(runs, 2)
    run(runs, 1)
    assert [*found] == ["out of order"]


def test_a_record_that_was_acquired_twice_may_begin_behind_a_later_one() -> None:
    """Though its delivery count is one: a leader has moved, and the new one has counted from one."""
    runs, found = new_runs(acquired(1, 2), acquired(1, 1))
    run(runs, 2)
    run(runs, 1)
    assert not found


def test_what_is_acquired_later_is_known_as_well() -> None:
    rows = [acquired(1, 3)]
    redelivered = Redelivered(rows)
    assert not redelivered.has(0, 2)
    rows.append(acquired(2, 2))
    assert [redelivered.has(0, offset) for offset in (1, 2, 3)] == [False, True, False]


async def test_what_has_failed_is_not_due_before_its_delay() -> None:
    runs, found = new_runs()
    runs.failed(delivery(1))
    run(runs, 1)
    assert [*found] == ["too soon"]


async def test_a_handler_that_raises_once_it_was_cancelled_has_not_failed() -> None:
    """It went on for a while, and whatever it raises then, only the cancellation counts."""
    runs, found = new_runs()
    with anyio.CancelScope() as scope:
        scope.cancel()
        with anyio.CancelScope(shield=True):
            await checkpoint()
        runs.failed(delivery(1))
    run(runs, 1)
    assert not found
