"""The pages of records, in a browser, with the embedded broker and with Kafka."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
from kafka import KafkaProducer
from playwright.sync_api import Page, expect

from kshare import sync
from tests.helpers.accessibility import assert_accessible
from tests.helpers.browsing import LOOKS, OpenPage, Problems
from tests.helpers.consoles import DEADLINE_S, RunningConsole, eventually
from tests.helpers.page_facts import assert_fits, tab_through
from tests.integration.conftest import EMBEDDED, FreshGroup, FreshTopic
from tests.integration.web.conftest import same_with_kafka
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.release("4.4.0", EMBEDDED), pytest.mark.long_on(EMBEDDED)]

expect.set_options(timeout=DEADLINE_S * 1000)

SCRIPT = "<script>alert('injected')</script>"
IMAGE = "<img src=x onerror=alert('injected')>"
JSON = b'{"order": 1, "to": "Lyon"}'
LONG = b"x" * 20_000
VALUES = [JSON, SCRIPT.encode(), b"\xff\xfe\x00", LONG, None, "a\u202eb\x07".encode()]


@pytest.fixture
def topic(kafka: Cluster, fresh_topic: FreshTopic) -> str:
    """With records that would harm a careless page."""
    name = fresh_topic(2)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for value in VALUES:
        headers = [(IMAGE, SCRIPT.encode()), ("trace", b"7")]
        producer.send(name, value, key=IMAGE.encode(), headers=headers, partition=0)
    producer.send(name, b"other", key=b"order-7", partition=1)
    producer.flush()
    producer.close()
    return name


def records_page(console: RunningConsole, topic: str, **wanted: object) -> str:
    return f"{console.url}/records/topic?{urlencode({'topic': topic, **wanted})}"


def places_on(page: Page) -> list[str]:
    """The records in the list, as partition:offset."""
    partitions = page.locator("tbody td:first-child").all_inner_texts()
    return [
        f"{partition}:{offset}"
        for partition, offset in zip(partitions, page.locator("tbody th").all_inner_texts(), strict=True)
    ]


def open_all(page: Page) -> None:
    for summary in page.locator("summary").all():
        summary.click()


def test_a_topic_is_found_and_its_records_are_shown(console: RunningConsole, page: Page, topic: str) -> None:
    page.goto(f"{console.url}/records")
    expect(page.locator("table")).not_to_contain_text("__share_group_state")
    page.get_by_label("Name contains").fill(topic)
    page.get_by_role("button", name="Filter").click()
    row = page.get_by_role("row", name=re.compile(topic))
    expect(row.locator("td").nth(1)).to_have_text(str(len(VALUES) + 1))
    row.get_by_role("link").click()
    expect(page.get_by_role("status")).to_contain_text("7 records found, 7 read")
    beginnings = page.locator("summary")
    expect(beginnings.nth(0)).to_have_text('Record 0:0: { "order": 1, "to": "Lyon" }')
    expect(beginnings.nth(3)).to_have_text(f"Record 0:3: {'x' * 80}\N{HORIZONTAL ELLIPSIS}")
    expect(beginnings.nth(4)).to_have_text("Record 0:4: null")
    expect(page.get_by_label("Value of 0:0")).to_be_hidden()
    open_all(page)
    expect(page.get_by_label("Value of 0:0")).to_have_text('{\n  "order": 1,\n  "to": "Lyon"\n}')
    expect(page.get_by_label("Value of 0:1")).to_have_text(SCRIPT)
    expect(page.get_by_label("Value of 0:2")).to_contain_text("ff fe 00")
    expect(page.locator("details").nth(3)).to_contain_text("Cut off: 20,000 bytes in all")
    expect(page.locator("details").nth(4)).to_contain_text("Value of 0:4: null")
    expect(page.get_by_label("Value of 0:5")).to_contain_text("61 e2 80 ae 62 07")
    expect(page.locator("details dt").first).to_have_text(IMAGE)


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ({"key": "order"}, ["1:0"]),
        ({"key": "order", "key_how": "equals"}, []),
        ({"key": "order-7", "key_how": "equals"}, ["1:0"]),
        ({"text": "Lyon"}, ["0:0"]),
        ({"header": "trace=7", "text": "script"}, ["0:1"]),
        ({"header": "trace=8"}, []),
        ({"partition": "1"}, ["1:0"]),
        ({"start": "newest", "from": "1"}, ["0:5", "1:0"]),
        ({"start": "offset", "from": "4"}, ["0:4", "0:5"]),
        ({"start": "time", "from": "2999-01-01"}, []),
        ({"until": "2020-01-01"}, []),
        ({"start": "earliest", "at": "0:5"}, ["0:5", "1:0"]),
    ],
)
def test_records_are_filtered(
    console: RunningConsole, page: Page, topic: str, wanted: dict[str, str], places: list[str]
) -> None:
    page.goto(records_page(console, topic, **wanted))
    assert places_on(page) == places


@same_with_kafka
def test_a_search_is_continued(
    console: RunningConsole, page: Page, kafka: Cluster, fresh_topic: FreshTopic
) -> None:
    topic = fresh_topic(1)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for number in range(120):
        producer.send(topic, b"%d" % number)
    producer.flush()
    producer.close()
    page.goto(records_page(console, topic, start="earliest"))
    assert page.locator("details").count() == 50
    page.get_by_role("link", name="Continue from there").click()
    page.get_by_role("link", name="Continue from there").click()
    expect(page.get_by_role("status")).to_contain_text("20 records found")
    assert places_on(page)[0] == "0:100"
    page.get_by_role("link", name="Back to the start").click()
    expect(page.locator("tbody th").first).to_have_text("0")


def test_a_record_says_where_it_stands_for_each_group(
    console: RunningConsole, page: Page, kafka: Cluster, topic: str, fresh_group: FreshGroup
) -> None:
    group = f"{SCRIPT}{fresh_group()}"
    kafka.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    with sync.ShareConsumer(
        kafka.bootstrap, group=group, topics=[topic], acknowledgement="explicit"
    ) as consumer:
        seen = 0
        for batch in consumer.batches():
            for record in batch:
                seen += 1
                if record.partition == 0 and record.offset in (1, 3):
                    record.accept()
                elif record.partition == 0 and record.offset == 2:
                    record.reject()
            consumer.commit()
            if seen >= len(VALUES) + 1:
                break

        def states() -> list[str]:
            page.goto(records_page(console, topic, group=group))
            return page.locator(".standing").all_inner_texts()

        found = eventually(states, lambda texts: sum("acknowledged" in text for text in texts) == 2)
        assert found[0] == "acquired or not delivered yet"
        assert found[2] == "archived"
        expect(page.get_by_role("columnheader", name=f"State in {group}")).to_be_visible()

    def standing() -> str:
        page.goto(f"{console.url}/records/record?topic={topic}&partition=0&offset=0")
        return page.get_by_role("region", name="Groups").inner_text()

    assert SCRIPT in eventually(standing, lambda text: "available after 1 delivery" in text)


def test_a_record_is_shown_whole(console: RunningConsole, page: Page, topic: str) -> None:
    page.goto(f"{console.url}/records/record?topic={topic}&partition=0&offset=3")
    expect(page.get_by_label("Value", exact=True)).to_have_text(LONG.decode())
    page.get_by_label("Show as").select_option("hex")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_label("Value", exact=True)).to_contain_text("00000010  78 78")


@same_with_kafka
def test_without_a_schema_registry_the_page_says_so(console: RunningConsole, page: Page, topic: str) -> None:
    page.goto(records_page(console, topic, view="registry"))
    expect(page.locator(".note.warning")).to_contain_text("--schema-registry")


@same_with_kafka
@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/records/topic?topic=nothing-here", 404, "there is no topic"),
        ("/records/topic?topic=TOPIC&partition=9", 404, "no partition 9"),
        ("/records/topic?topic=TOPIC&start=offset", 400, "an offset is missing"),
        ("/records/topic?topic=TOPIC&since=soon", 400, "write it as 2026-01-31T12:00:00"),
        ("/records/topic?topic=TOPIC&at=1", 400, "isn't a place"),
        ("/records/record?topic=TOPIC&partition=0&offset=999", 404, "there is no record"),
        ("/records/record?topic=TOPIC&partition=0", 400, "offset is missing"),
    ],
)
def test_what_cannot_be_shown_is_explained(
    console: RunningConsole, page: Page, problems: Problems, topic: str, path: str, status: int, reason: str
) -> None:
    with problems.expected(f"status of {status}"):
        page.goto(console.url + path.replace("TOPIC", topic))
        expect(page.get_by_role("alert")).to_contain_text(reason)


@LOOKS
@same_with_kafka
def test_pages_are_accessible(
    console: RunningConsole, open_page: OpenPage, topic: str, viewport: object, colours: str
) -> None:
    page = open_page(viewport=viewport, color_scheme=colours)
    for path in (
        "/records",
        f"/records/topic?topic={topic}",
        f"/records/record?topic={topic}&partition=0&offset=1",
    ):
        page.goto(console.url + path)
        open_all(page)
        assert_accessible(page)
        assert_fits(page)


@same_with_kafka
def test_the_keyboard_alone_is_enough(console: RunningConsole, page: Page, topic: str) -> None:
    page.goto(records_page(console, topic))
    focused = tab_through(page)
    assert all(element.has_outline for element in focused)
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Value of 0:0")).to_be_visible()
    assert {"Partition", "Key contains", "Search"} <= {element.name for element in focused}
    page.get_by_label("Value contains").focus()
    page.keyboard.type("Lyon")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("1 record found")


@same_with_kafka
def test_records_open_without_javascript(console: RunningConsole, open_page: OpenPage, topic: str) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(records_page(console, topic, key="order-7", key_how="equals"))
    expect(page.get_by_label("this is the whole key")).to_be_checked()
    page.locator("summary").click()
    expect(page.get_by_label("Value of 1:0")).to_have_text("other")
    expect(page.get_by_label("Key of 1:0")).to_have_text("order-7")
