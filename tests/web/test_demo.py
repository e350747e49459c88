"""The demo: what it shows must be there, and live."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from kshare.web.demo import WORKER_HOST, WORKER_TOPIC, Demo
from tests.helpers.consoles import DEADLINE_S, RunningConsole, running_console

expect.set_options(timeout=DEADLINE_S * 1000)


@pytest.fixture
def console() -> Iterator[RunningConsole]:
    with (
        Demo() as demo,
        running_console(demo.bootstrap, worker_topic=WORKER_TOPIC, worker_hosts=(WORKER_HOST,)) as running,
    ):
        yield running


def test_its_groups_and_its_worker_are_shown(console: RunningConsole, page: Page) -> None:
    page.goto(f"{console.url}/?sort=group")
    groups = page.locator("#groups tbody th")
    expect(groups).to_contain_text(["couriers", "insurers", "invoices", "packers", "trackers"])
    page.get_by_role("link", name="Workers").click()
    page.locator("#processes tbody a").first.click()
    expect(page.locator("#process")).to_contain_text("frieda")
    expect(page.get_by_role("region", name="Runs in progress")).to_contain_text("insure")
    expect(page.get_by_role("region", name="Handlers")).to_contain_text("track")
