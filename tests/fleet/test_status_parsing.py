"""What a worker writes is read as it was; everything else is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kshare.fleet.json_table import NotExpected
from kshare.fleet.status_parsing import parse_status
from kshare.worker.rules.breaker import BreakerState
from kshare.worker.watch.counts import Counts
from kshare.worker.watch.health import HandlerHealth, HandlerState, WorkerState
from kshare.worker.watch.process_identity import identify_process
from kshare.worker.watch.status import HandlerStatus, ProcessStatus, RunState, RunStatus, status_page
from tests.fleet.pages import a_page

STATUS = ProcessStatus(
    identity=identify_process("shop"),
    state=WorkerState.DRAINING,
    reason="the worker is draining",
    handlers=(
        HandlerStatus(
            health=HandlerHealth(
                handler="ship",
                group="g",
                topics=("orders", "returns"),
                state=HandlerState.BREAKER_OPEN,
                breaker=BreakerState.HALF_OPEN,
                running=1,
                ready=2,
                held=3,
                counts=Counts(done=4, lost=5),
                last_progress=1234.5,
                unheard_s=0.5,
            ),
            concurrency=10,
            attempts=5,
            time_limit=300.0,
            lock_s=30.0,
            runs=(
                RunStatus(
                    topic="orders",
                    partition=1,
                    offset=2**40,
                    records=100,
                    delivery_count=2,
                    attempt=1,
                    state=RunState.COLLECTING,
                    seconds=0.1,
                ),
            ),
            run_count=1,
        ),
    ),
)


def test_what_a_worker_writes_is_read_as_it_was() -> None:
    assert parse_status(json.dumps(status_page(STATUS)).encode()) == STATUS


def test_later_versions_may_have_more_fields() -> None:
    assert parse_status(json.dumps(a_page(news={"a": 1})).encode()) == parse_status(
        json.dumps(a_page()).encode()
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schema": 2}, "schema 2"),
        ({"schema": None}, "schema must be"),
        ({"state": "fine"}, "state must be one of stopped"),
        ({"pid": "7"}, "pid must be"),
        ({"handlers": {}}, "handlers must be a list"),
        ({"handlers": [1]}, r"handlers\[0\] must be an object"),
        ({"handlers": [{}]}, r"handlers\[0\]\.counts must be an object"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotExpected, match=reason):
        parse_status(json.dumps(a_page(**changes)).encode())


def test_each_field_is_needed() -> None:
    def without_each(value: Any) -> Any:
        """All copies of the JSON with one field less."""
        if isinstance(value, list):
            for number, item in enumerate(value):
                for changed in without_each(item):
                    yield [*value[:number], changed, *value[number + 1 :]]
        elif isinstance(value, dict):
            for name, item in value.items():
                yield {other: kept for other, kept in value.items() if other != name}
                for changed in without_each(item):
                    yield value | {name: changed}

    pages = list(without_each(a_page()))
    assert len(pages) > 40
    for page in pages:
        with pytest.raises(NotExpected):
            parse_status(json.dumps(page).encode())


def test_topics_of_all_handlers_are_limited_in_sum() -> None:
    """Short ones take many times their bytes: 1 MB of status became 8.7 MB."""
    page = a_page()
    page["handlers"] = [page["handlers"][0] | {"topics": ["ab"] * 6_000}] * 2
    with pytest.raises(NotExpected, match=r"handlers\[1\]\.topics must be a list of at most 4,000"):
        parse_status(json.dumps(page).encode())
