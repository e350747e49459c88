"""The overview and the pages of a group, in a browser, with the embedded broker and with Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from kshare import sync
from tests.helpers.accessibility import assert_accessible
from tests.helpers.browsing import LOOKS, OpenPage, Problems
from tests.helpers.consoles import DEADLINE_S, RunningConsole, eventually
from tests.helpers.page_facts import assert_fits, tab_through
from tests.integration.conftest import EMBEDDED, FreshGroup, FreshTopic
from tests.integration.producing import produce
from tests.integration.web.conftest import WINDOW, pinned, same_with_kafka
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.release("4.4.0", EMBEDDED), pytest.mark.long_on(EMBEDDED)]

expect.set_options(timeout=DEADLINE_S * 1000)


@pytest.fixture
def topic(kafka: Cluster, fresh_topic: FreshTopic) -> str:
    name = fresh_topic(1)
    produce(kafka, name, 3 * WINDOW)
    return name


@pytest.fixture
def group(kafka: Cluster, topic: str, fresh_group: FreshGroup) -> Iterator[str]:
    """With a full in-flight window."""
    name = fresh_group(share_partition_max_record_locks=str(WINDOW))
    with pinned(kafka.bootstrap, name, topic):
        yield name


def test_a_full_window_is_named_with_its_holder(
    console: RunningConsole, page: Page, group: str, topic: str
) -> None:
    page.goto(f"{console.url}/?q={group}")
    row = page.get_by_role("row", name=re.compile(group))
    expect(row).to_contain_text("1 full window")  # without loading the page again
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Group {group}")
    trouble = page.locator(".note.problem").first
    expect(trouble).to_contain_text(f"{topic}[0]: in-flight window full")
    expect(trouble).to_contain_text("until offset 0 is settled")
    expect(trouble).to_contain_text("Offset 0 has been the first unsettled one for at least")
    expect(trouble).to_contain_text("Held by courier (")
    server = page.locator(".cluster").inner_text()
    todo = trouble.get_by_role("group", name="Commands")
    expect(todo).to_contain_text(f"kshare groups describe {group} --members --bootstrap-server {server}")
    expect(page.get_by_role("region", name="Members")).to_contain_text("courier")
    expect(trouble).to_contain_text("settled ones and gaps included (")
    bar = page.get_by_role("img", name=re.compile("Offsets 0 to"))
    assert bar.locator("path.acknowledged").count() == 1
    assert bar.locator("path.not-released").count() == 1
    expect(page.locator(".counts")).to_contain_text(re.compile(r"\d+ acknowledged"))
    expect(page.locator("#partitions > .about")).to_contain_text("the full width stands for 300 offsets")
    trouble.get_by_role("link", name="0", exact=True).click()
    standing = page.get_by_role("row", name=re.compile(group))
    expect(standing).to_contain_text(
        "It pins the in-flight window: nothing new of this partition is delivered"
    )
    page.goto(page.url.replace("offset=0", "offset=1"))
    expect(standing).not_to_contain_text("pins")


def test_pages_follow_the_cluster(
    console: RunningConsole, page: Page, kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(1), fresh_group()
    page.goto(f"{console.url}/?q={group}")
    # Which of the two it says depends on the tests before.
    expect(page.locator("#groups")).to_contain_text(
        re.compile("No group's name contains|There are no share groups")
    )
    produce(kafka, topic, 5)
    with sync.ShareConsumer(
        kafka.bootstrap, group=group, topics=[topic], acknowledgement="explicit"
    ) as consumer:
        batch = next(iter(consumer.batches()))
        row = page.get_by_role("row", name=re.compile(group))
        expect(row.locator("td").nth(0)).to_have_text("Stable")
        first, *others = batch
        first.accept()
        consumer.commit()
        expect(row.locator("td").nth(1)).to_have_text(str(len(others)))
        for record in others:
            record.accept()
        consumer.commit()
        expect(row.locator("td").nth(1)).to_have_text("0")
    expect(row.locator("td").nth(0)).to_have_text("Empty")


def test_settings_are_changed_and_removed(console: RunningConsole, page: Page, group: str) -> None:
    page.goto(f"{console.url}/?q={group}")
    page.get_by_role("row", name=re.compile(group)).get_by_role("link").click()
    page.get_by_role("link", name="Settings").click()
    setting = "share.session.timeout.ms"
    row = page.get_by_role("row", name=re.compile(f"^{re.escape(setting)}"))
    expect(row).to_contain_text("45000")
    row.get_by_label(f"New value of {setting}").fill("50000")
    row.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text(f"{setting} was changed")

    def is_changed() -> bool:
        page.reload()
        return row.locator("td").nth(0).inner_text() == "50000"

    eventually(is_changed, bool)
    expect(row.locator("td").nth(1)).to_have_text("group")
    row.get_by_role("button", name="Back to default").click()
    expect(page.get_by_role("status")).to_contain_text("was changed")


@same_with_kafka
def test_settings_with_few_values_are_chosen_from_a_list(
    console: RunningConsole, page: Page, group: str, problems: Problems
) -> None:
    _open(page, console, f"/group/settings?name={group}", group)
    isolation = page.get_by_label("New value of share.isolation.level")
    assert isolation.locator("option").all_inner_texts() == ["read_uncommitted", "read_committed"]
    renewing = page.get_by_label("New value of share.renew.acknowledge.enable")
    assert renewing.locator("option").all_inner_texts() == ["true", "false"]
    setting = "share.auto.offset.reset"
    row = page.get_by_role("row", name=re.compile(f"^{re.escape(setting)}"))
    row.get_by_label(f"New value of {setting}").select_option("by duration:")
    with problems.expected("status of 400"):
        row.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("write how far back")
    page.go_back()
    row.get_by_label(f"New value of {setting}").select_option("by duration:")
    row.get_by_label("How far back").fill("PT12H")
    row.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text(f"{setting} was changed")

    def is_changed() -> bool:
        page.reload()
        return row.locator("td").nth(0).inner_text() == "by_duration:PT12H"

    eventually(is_changed, bool)
    expect(row.get_by_label("How far back")).to_have_value("PT12H")


def test_an_invalid_setting_is_explained(
    console: RunningConsole, page: Page, group: str, problems: Problems
) -> None:
    page.goto(f"{console.url}/?q={group}")
    page.get_by_role("row", name=re.compile(group)).get_by_role("link").click()
    page.get_by_role("link", name="Settings").click()
    row = page.get_by_role("row", name=re.compile(r"^share\.session\.timeout\.ms"))
    row.get_by_role("textbox").fill("soon")
    with problems.expected("status of 400"):
        row.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("share.session.timeout.ms")


def test_offsets_are_reset_after_a_dry_run(
    console: RunningConsole, page: Page, kafka: Cluster, fresh_group: FreshGroup, topic: str
) -> None:
    group = fresh_group()
    with sync.ShareConsumer(
        kafka.bootstrap, group=group, topics=[topic], acknowledgement="explicit"
    ) as consumer:
        seen = 0
        for batch in consumer.batches():
            for record in batch:
                record.accept()
                seen += 1
            if seen == 3 * WINDOW:
                break
    page.goto(f"{console.url}/?q={group}")
    row = page.get_by_role("row", name=re.compile(group))
    expect(row.locator("td").nth(0)).to_have_text("Empty")
    row.get_by_role("link").click()
    page.get_by_role("link", name="Offsets").click()
    page.get_by_label("Topic").select_option(topic)
    page.get_by_label("To", exact=True).select_option("offset")
    page.get_by_label("Time").fill("0")
    page.get_by_role("button", name="Show what would change").click()
    plan = page.get_by_role("row", name=re.compile(rf"^{topic}\[0\]"))
    expect(plan).to_contain_text(str(3 * WINDOW))
    page.get_by_role("button", name="Reset the offsets").click()
    expect(page.get_by_role("status")).to_contain_text("were reset")
    page.get_by_role("link", name="Partitions and members").click()
    expect(page.locator("#group-totals")).to_contain_text(str(3 * WINDOW))


@LOOKS
@same_with_kafka
def test_pages_are_accessible(
    console: RunningConsole, open_page: OpenPage, group: str, viewport: object, colours: str
) -> None:
    page = open_page(viewport=viewport, color_scheme=colours)
    for path in (
        "/",
        f"/group?name={group}",
        f"/group/settings?name={group}",
        f"/group/offsets?name={group}",
    ):
        _open(page, console, path, group)
        assert_accessible(page)
        assert_fits(page)


@same_with_kafka
def test_the_keyboard_alone_is_enough(console: RunningConsole, page: Page, group: str) -> None:
    _open(page, console, f"/group?name={group}", group)
    focused = tab_through(page)
    assert all(element.has_outline for element in focused)
    names = [element.name for element in focused]
    assert names[0] == "Skip to the content"
    assert {"Overview", "Settings", "Offsets", "Sort by", "Sort"} <= set(names)
    page.get_by_role("link", name="Offsets").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Reset offsets")).to_be_visible()


@same_with_kafka
def test_pages_are_readable_without_javascript(
    console: RunningConsole, open_page: OpenPage, group: str
) -> None:
    page = open_page(java_script_enabled=False)
    _open(page, console, f"/group?name={group}", group)
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Group {group}")
    expect(page.locator(".partition").first).to_contain_text("lag")


def _open(page: Page, console: RunningConsole, path: str, group: str) -> None:
    """Open a page once the console knows the group."""
    eventually(lambda: console.request(f"/group?name={group}")[0], lambda status: status == 200)
    page.goto(console.url + path)
