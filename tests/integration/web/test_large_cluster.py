"""1,000 groups of 100 partitions can be browsed: pages stay light, and begin to arrive at once.

The console is a process of its own, as for users. The report has the figures; only weights are asserted, because how
fast a page begins depends on what else the machine does.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from playwright.sync_api import Page, expect

from kshare import AdminClient
from kshare.testing import Broker
from tests.helpers.consoles import DEADLINE_S
from tests.helpers.page_facts import first_byte_ms, page_weight
from tests.integration.reporting import say, write_report

GROUPS, PARTITIONS = 1000, 100
MOST_BYTES = 200 * 1024
LOADS = 15
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": PARTITIONS}) as broker:
        for partition in range(PARTITIONS):
            broker.produce("orders", [b"x"] * 5, partition=partition)
        anyio.run(_make_groups, broker.bootstrap)
        yield broker


async def _make_groups(bootstrap: str) -> None:
    async with AdminClient(bootstrap) as admin:
        for number in range(GROUPS):
            name = f"group-{number:04}"
            await admin.alter_share_group_offsets(name, {("orders", at): 1 for at in range(PARTITIONS)})


@pytest.fixture(scope="module")
def url(broker: Broker, free_tcp_port_factory: Callable[[], int]) -> Iterator[str]:
    listen = f"127.0.0.1:{free_tcp_port_factory()}"
    command = [sys.executable, "-m", "kshare", "web", "-b", broker.bootstrap, "--listen", listen]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as console:
        try:
            assert console.stdout is not None
            yield console.stdout.readline().split()[-1].rstrip("/")
        finally:
            console.terminate()


@pytest.mark.timeout(900)
def test_a_thousand_groups_are_browsable(url: str, page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    expect.set_options(timeout=6 * DEADLINE_S * 1000)
    page.goto(url)
    expect(page.locator("#totals")).to_contain_text("1,000")
    expect(page.locator("#totals")).to_contain_text("400,000")
    rows = []
    for name, path in (
        ("overview", "/"),
        ("overview, last page", "/?page=20&sort=group"),
        ("overview, filtered", "/?q=group-05"),
        ("group", "/group?name=group-0500"),
        ("group, last page", "/group?name=group-0500&page=5"),
        ("settings", "/group/settings?name=group-0500"),
        ("offsets", "/group/offsets?name=group-0500"),
    ):
        times = []
        for _ in range(LOADS):
            page.goto(url + path)
            times.append(first_byte_ms(page))
        weight = _weight_without_cache(page, url + path)
        assert weight < MOST_BYTES, path
        rows.append(
            f"| {name} | {min(times):.0f} | {statistics.median(times):.0f} | {max(times):.0f} | {weight / 1024:.0f} |"
        )
    page.goto(url)
    page.get_by_role("link", name="Next").click()
    expect(page.locator("#groups .pages")).to_contain_text("page 2 of 20")
    page.get_by_label("Name contains").fill("group-0777")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("row", name=re.compile("group-0777")).get_by_role("link").click()
    expect(page.locator("#partitions .pages")).to_contain_text("page 1 of 5")
    report = "\n".join(
        [
            f"The pages of `kshare web` with {GROUPS:,} groups of {PARTITIONS} partitions, on the embedded broker,",
            f"while the console takes its readings: {LOADS} loads of each page, one after the other.",
            "",
            "| page | first byte, ms: min | median | max | page weight, KiB, with an empty cache |",
            "|---|---|---|---|---|",
            *rows,
        ]
    )
    write_report(Path("web-large.md"), "The console with a large cluster", report)
    say(capsys, report)


def _weight_without_cache(page: Page, url: str) -> int:
    browser = page.context.browser
    assert browser is not None
    context = browser.new_context()
    try:
        fresh = context.new_page()
        fresh.goto(url)
        return page_weight(fresh)
    finally:
        context.close()
