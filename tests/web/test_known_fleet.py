"""Processes by id, group and record; those that do not respond; and those that claim what is another's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kshare.fleet.announcements import Announced, parse_announcement
from kshare.fleet.fleet import FleetProcess, FleetView
from kshare.fleet.no_status import NoStatus, Why
from kshare.fleet.status_parsing import parse_status
from kshare.web.known_fleet import KnownFleet, runs_of
from kshare.worker.watch.announcement import ANNOUNCEMENT_SCHEMA
from kshare.worker.watch.status_url import StatusUrl, parse_status_url
from tests.fleet.pages import a_page

REFUSED = NoStatus(Why.UNREACHABLE, "the connection was refused")


def url(port: int = 80) -> StatusUrl:
    return parse_status_url(f"http://shop:{port}")


def told(port: int = 80, **changes: Any) -> FleetProcess:
    return FleetProcess(url(port), None, None, parse_status(json.dumps(a_page(**changes)).encode()))


def announced(silent_since: float | None = None) -> FleetProcess:
    value = a_page(
        schema=ANNOUNCEMENT_SCHEMA,
        url=str(url()),
        interval_s=60,
        handlers=[{"handler": name, "group": "g"} for name in ("ship", "bill")],
    )
    announcement = parse_announcement("a1", json.dumps(value).encode())
    return FleetProcess(url(), Announced(announcement, 9.0), silent_since, REFUSED)


def known(*processes: FleetProcess) -> KnownFleet:
    return KnownFleet(FleetView(processes, ()), 5.0)


def a_handler(*offsets: int, seconds: float = 1, group: str = "g") -> dict[str, Any]:
    handler: dict[str, Any] = a_page()["handlers"][0]
    runs = [handler["runs"][0] | {"offset": offset, "seconds": seconds} for offset in offsets]
    return handler | {"runs": runs, "run_count": len(runs) + 3, "group": group}


def test_a_process_that_responds() -> None:
    fleet = known(told(reason="it drains", state="draining"))
    (process,) = fleet.processes
    assert (process.key, process.host, process.groups) == ("a1", "shop-1", ("g",))
    assert (process.state, process.reason) == ("draining", "it drains")
    assert (process.run_count, process.longest_s) == (1, 12.5)
    assert fleet.process("a1") is process
    assert fleet.of_group("g") == [process]
    assert fleet.of_group("other") == ()


@pytest.mark.parametrize(("silent_since", "state"), [(None, "no response"), (9.0, "silent")])
def test_an_announced_process_that_does_not_respond(silent_since: float | None, state: str) -> None:
    (process,) = known(announced(silent_since)).processes
    assert (process.key, process.host, process.groups) == ("a1", "shop-1", ("g",))
    assert (process.state, process.reason, process.silent_since) == (state, REFUSED.text, silent_since)
    assert (process.handlers, process.run_count, process.longest_s) == (None, None, None)


def test_a_process_that_does_not_respond_any_more_is_still_known() -> None:
    """Although it is only known by its URL."""
    before = known(told())
    gone = FleetProcess(url(), None, None, REFUSED)
    later = KnownFleet(FleetView((gone,), ()), 7.0, before)
    last = KnownFleet(FleetView((gone,), ()), 9.0, later)
    for fleet in (later, last):
        (process,) = fleet.of_group("g")
        assert (process.key, process.host, process.state) == ("a1", "shop-1", "no response")
        assert (process.heard_at, process.handlers) == (5.0, None)


def test_when_another_process_has_responded_does_not_matter() -> None:
    before = known(told(id="b1"))
    (process,) = KnownFleet(FleetView((announced(9.0),), ()), 7.0, before).processes
    assert (process.key, process.heard_at) == ("a1", None)


@pytest.mark.parametrize(
    ("why", "state"),
    [(Why.NOT_ALLOWED, "not asked"), (Why.TIMED_OUT, "no response"), (Why.NOT_JSON, "no status")],
)
def test_why_nothing_is_known(why: Why, state: str) -> None:
    (process,) = known(FleetProcess(url(), None, None, NoStatus(why, "so it is"))).processes
    assert (process.state, process.reason) == (state, "so it is")


def test_a_process_of_which_only_the_url_is_known() -> None:
    (process,) = known(FleetProcess(url(), None, None, REFUSED)).processes
    assert process.key == process.host == "http://shop:80/status"
    assert (process.identity, process.groups) == (None, ())


@pytest.mark.parametrize("id_", ["a1", "http://shop:82/status", ""])
def test_a_claimed_id_hides_no_other_process(id_: str) -> None:
    fleet = known(told(80), told(81, id=id_), FleetProcess(url(82), None, None, REFUSED))
    assert [process.key for process in fleet.processes] == [
        "a1",
        "http://shop:81/status",
        "http://shop:82/status",
    ]


def test_the_longest_runs_of_all_handlers_come_first() -> None:
    fleet = known(told(handlers=[a_handler(1, seconds=2), a_handler(2, seconds=7), a_handler(3)]))
    (process,) = fleet.processes
    assert [run.run.offset for run in runs_of(process)] == [2, 1, 3]
    assert process.run_count == 12


def test_runs_are_found_by_the_record_they_are_about() -> None:
    fleet = known(told(handlers=[a_handler(4, 5), a_handler(4, group="h")]))
    (found,) = fleet.runs_about(("g", "orders", 2, 4))
    assert (found.run.offset, found.handler.health.group, found.process.key) == (4, "g", "a1")
    assert fleet.runs_about(("g", "orders", 2, 6)) == ()
    assert fleet.runs_about(("g", "orders", 1, 4)) == ()


def test_the_longest_runs_of_a_partition_come_first() -> None:
    fleet = known(
        told(81, id="b1", handlers=[a_handler(1, 2, 3, seconds=2)]),
        told(80, handlers=[a_handler(4, seconds=7), a_handler(5, seconds=9, group="h")]),
    )
    assert [run.run.offset for run in fleet.longest_runs(("g", "orders", 2))] == [4, 1, 2]
    assert fleet.longest_runs(("g", "orders", 1)) == ()


def test_few_runs_are_kept_for_a_record() -> None:
    fleet = known(*(told(port, id=str(port), handlers=[a_handler(4)]) for port in range(1, 10)))
    assert len(fleet.runs_about(("g", "orders", 2, 4))) == 3
