"""All pages on a telephone: nothing is cut off, and tables become blocks, in which each value has a name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from kshare.web.demo import WORKER_HOST, WORKER_TOPIC, Demo
from kshare.web.pages.wire import EXAMPLES
from tests.helpers.browsing import PHONE, OpenPage
from tests.helpers.consoles import DEADLINE_S, RunningConsole, eventually, running_console, submit
from tests.helpers.page_facts import assert_fits, scrolled_tables

expect.set_options(timeout=DEADLINE_S * 1000)
REDRIVE = "/dead-letters/plan?topic=dlq.orders&do=redrive-all"
BLOCKS = [
    "/",
    "/group?name=couriers",
    "/group/settings?name=couriers",
    "/group/offsets?name=invoices",
    "/records",
    "/records/topic?topic=orders&group=packers",
    "/records/record?topic=parcels&partition=0&offset=0",
    "/dead-letters",
    "/dead-letters/topic?topic=dlq.orders",
    "/dead-letters/letter?topic=dlq.orders&partition=0&offset=0",
    REDRIVE,
    "/workers",
    "/wire",
    *(f"/wire?bytes={text}" for text in EXAMPLES.values()),
]
_UNNAMED = """() => [...document.querySelectorAll(".stacked tbody td:not([data-name]):not(.whole)")]
    .map(cell => cell.textContent.trim()).filter(text => text)"""
"""Values that don't say which column they are of."""


@pytest.fixture(scope="module")
def console() -> Iterator[RunningConsole]:
    workers = {"worker_topic": WORKER_TOPIC, "worker_hosts": (WORKER_HOST,)}
    with Demo() as demo, running_console(demo.bootstrap, allow_changes=True, **workers) as running:
        yield running


def redriven(console: RunningConsole) -> str:
    """The page of a job that has redriven dead letters."""
    eventually(lambda: console.request(REDRIVE)[2], lambda text: "<button>Redrive" in text)
    form = {"topic": "dlq.orders", "action": "redrive", "letters": "0:0"}
    status, headers, _ = submit(console, REDRIVE, "/dead-letters/start", form)
    assert status == 303
    job = headers["location"]
    eventually(lambda: console.request(job)[2], lambda text: "Outcomes" in text)
    return job


def test_no_page_is_cut_off(console: RunningConsole, open_page: OpenPage) -> None:
    page = open_page(viewport=PHONE)
    page.goto(f"{console.url}/?sort=group")
    expect(page.locator("#groups tbody th")).to_contain_text(["couriers", "insurers", "invoices", "packers"])
    page.goto(f"{console.url}/workers")
    process = page.locator("#processes tbody a").first.get_attribute("href")
    assert process is not None
    for path in [*BLOCKS, process, redriven(console)]:
        page.goto(console.url + path)
        assert_fits(page)
        assert scrolled_tables(page) == [], path
        assert page.evaluate(_UNNAMED) == [], path


def test_the_overview_fits_a_laptop(console: RunningConsole, open_page: OpenPage) -> None:
    page = open_page(viewport={"width": 1280, "height": 800})
    page.goto(console.url)
    expect(page.get_by_text("full window").first).to_be_visible()
    assert scrolled_tables(page) == []


def test_groups_can_be_sorted(console: RunningConsole, open_page: OpenPage) -> None:
    page = open_page(viewport=PHONE)
    page.goto(f"{console.url}/?sort=group")
    expect(page.locator("#groups tbody th")).to_contain_text(["couriers", "insurers"])
    page.locator("#groups thead").get_by_role("link", name="Group").click()
    expect(page.locator("#groups tbody th").last).to_contain_text("couriers")
