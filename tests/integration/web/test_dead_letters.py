"""The pages of dead letters, in a browser, with the embedded broker and with Kafka."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from kafka import KafkaProducer
from playwright.sync_api import Page, expect

from tests.helpers.accessibility import assert_accessible
from tests.helpers.browsing import LOOKS, OpenPage, Problems
from tests.helpers.consoles import DEADLINE_S, RunningConsole, eventually, running_console
from tests.helpers.page_facts import assert_fits, tab_through
from tests.helpers.rejecting import reject
from tests.integration.conftest import EMBEDDED, FreshGroup, FreshTopic
from tests.integration.web.conftest import same_with_kafka
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.release("4.4.0", EMBEDDED), pytest.mark.long_on(EMBEDDED)]

expect.set_options(timeout=DEADLINE_S * 1000)

SCRIPT = "<script>alert('injected')</script>"
COUNT = 4


@pytest.fixture
def topic(kafka: Cluster, fresh_topic: FreshTopic) -> str:
    return fresh_topic(1)


@pytest.fixture
def group(fresh_group: FreshGroup) -> str:
    return f"{SCRIPT}{fresh_group()}"


@pytest.fixture
def grave(kafka: Cluster, console: RunningConsole, topic: str, group: str) -> str:
    """A topic with dead letters that brokers have written."""
    name = f"dlq.{topic}"
    kafka.create_topic(name, 1, settings={"errors.deadletterqueue.group.enable": "true"})
    kafka.set_group_config(
        group,
        {
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": name,
            "errors.deadletterqueue.copy.record.enable": "true",
        },
    )
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for number in range(COUNT):
        value = f"{number} {SCRIPT}".encode()
        producer.send(topic, value, key=SCRIPT.encode(), headers=[(SCRIPT, b"h")])
    producer.flush()
    producer.close()
    reject(kafka.bootstrap, group, topic, COUNT)
    eventually(  # brokers write dead letters after they have confirmed the rejection
        lambda: console.request(f"/dead-letters/topic?topic={name}")[2],
        lambda text: f"{COUNT} dead letters found" in text,
    )
    return name


def letters_page(console: RunningConsole, grave: str, **wanted: object) -> str:
    return f"{console.url}/dead-letters/topic?{urlencode({'topic': grave, **wanted})}"


def row_of(page: Page, place: str) -> str:
    return page.get_by_role("row", name=re.compile(f"^Choose {place} ")).inner_text()


def test_dead_letters_are_listed_read_and_explained(
    console: RunningConsole, page: Page, grave: str, topic: str, group: str
) -> None:
    page.goto(f"{console.url}/dead-letters")
    row = page.get_by_role("row", name=re.compile(re.escape(grave)))
    expect(row.locator("td").nth(1)).to_have_text(str(COUNT))
    row.get_by_role("link").click()
    expect(page.get_by_role("status")).to_contain_text(f"{COUNT} dead letters found, {COUNT} records read")
    assert group in row_of(page, "0:1")
    page.get_by_role("link", name="0:1", exact=True).click()
    table = page.get_by_role("region", name="Dead-letter headers")
    expect(table).to_contain_text("the share group that archived it")
    expect(table).to_contain_text(group)
    expect(page.get_by_label("Value", exact=True)).to_have_text(f"1 {SCRIPT}")
    page.get_by_role("link", name="The original record").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Record {topic}[0]@1")


def test_dead_letters_are_filtered(
    console: RunningConsole, page: Page, grave: str, topic: str, group: str
) -> None:
    for wanted, count in (
        ({"source": topic, "from_group": group}, COUNT),
        ({"source": "another"}, 0),
        ({"reason": "REJECTED by client"}, COUNT),
        ({"reason": "no such reason"}, 0),
        ({"until": "2020-01-01"}, 0),
    ):
        page.goto(letters_page(console, grave, **wanted))
        expect(page.get_by_role("status")).to_contain_text(f"{count} dead letters found")


def test_one_is_redriven_after_a_dry_run(console: RunningConsole, page: Page, grave: str, topic: str) -> None:
    page.goto(letters_page(console, grave))
    page.get_by_label("Choose 0:2").check()
    page.get_by_role("button", name="Redrive the chosen").click()
    expect(page.get_by_role("region", name="Dry run")).to_contain_text("0:2")
    server = page.locator(".cluster").inner_text()
    command = f"kshare dlq redrive {grave} --letter 0:2 --bootstrap-server {server}"
    expect(page.get_by_label("Commands")).to_have_text(command)
    page.get_by_role("button", name="Redrive 1 dead letter").click()
    outcomes = page.get_by_role("region", name="Outcomes")
    expect(outcomes).to_contain_text(f"to {topic}[0]@{COUNT}")  # without loading the page again
    expect(page.locator("#job")).to_contain_text("done")
    page.goto(letters_page(console, grave, show="all"))
    assert "settled" in row_of(page, "0:2")
    assert row_of(page, "0:1").endswith("open, delivered to 1 run")


def test_dead_letters_are_dropped_by_filter(
    console: RunningConsole, page: Page, grave: str, topic: str
) -> None:
    page.goto(letters_page(console, grave, source=topic))
    page.get_by_role("button", name="Drop all that match").click()
    page.get_by_role("button", name=f"Drop {COUNT} dead letters").click()
    expect(page.locator("#job")).to_contain_text("done")
    outcomes = page.get_by_role("region", name="Outcomes").get_by_role("row")
    expect(outcomes).to_have_count(COUNT + 1)
    expect(outcomes.nth(1)).to_contain_text("dropped")
    page.goto(f"{console.url}/records/topic?topic={topic}")
    expect(page.get_by_role("status")).to_contain_text(f"{COUNT} records found")  # nothing was written
    page.goto(f"{console.url}/dead-letters")
    row = page.get_by_role("row", name=re.compile(rf"^{re.escape(grave)}"))
    assert row.locator("td").all_inner_texts()[1:4] == [str(COUNT), "0", str(COUNT)]
    page.goto(f"{console.url}/dead-letters/plan?topic={grave}&do=redrive-all")
    expect(page.locator("main")).to_contain_text("No open dead letter matches.")


def test_dead_letters_are_redriven_to_another_topic(
    console: RunningConsole, page: Page, grave: str, fresh_topic: FreshTopic
) -> None:
    other = fresh_topic(1)
    page.goto(letters_page(console, grave))
    page.get_by_label("Redrive to this topic").fill(other)
    page.get_by_role("button", name="Redrive all that match").click()
    page.get_by_role("button", name=f"Redrive {COUNT} dead letters").click()
    expect(page.get_by_role("region", name="Outcomes")).to_contain_text(f"to {other}[0]@{COUNT - 1}")
    page.goto(f"{console.url}/records/topic?topic={other}")
    expect(page.get_by_label("Value of 0:0")).to_have_text(f"0 {SCRIPT}")


@same_with_kafka
@pytest.mark.parametrize(
    ("wanted", "status", "reason"),
    [
        ({"do": "redrive-chosen"}, 400, "no dead letter was chosen"),
        ({"do": "drop-chosen", "letter": "0:99"}, 400, "has no dead letter 0:99"),
        ({"do": "redrive-all", "to": "nothing-here"}, 404, "there is no topic"),
        ({"do": "redrive-all", "to": "GRAVE"}, 400, "is the dead-letter topic itself"),
        ({"do": "burn-all"}, 400, "is neither"),
    ],
)
def test_a_plan_that_cannot_work_is_explained(
    console: RunningConsole,
    page: Page,
    problems: Problems,
    grave: str,
    wanted: dict[str, str],
    status: int,
    reason: str,
) -> None:
    filled = {name: grave if value == "GRAVE" else value for name, value in wanted.items()}
    with problems.expected(f"status of {status}"):
        page.goto(f"{console.url}/dead-letters/plan?{urlencode({'topic': grave, **filled})}")
        expect(page.get_by_role("alert")).to_contain_text(reason)


@pytest.fixture
def read_only(kafka: Cluster) -> Iterator[RunningConsole]:
    with running_console(kafka.bootstrap) as running:
        yield running


@same_with_kafka
def test_a_read_only_console_shows_commands_instead(
    read_only: RunningConsole, page: Page, grave: str, topic: str, group: str, kafka: Cluster
) -> None:
    page.goto(letters_page(read_only, grave, reason="it's"))
    expect(page.locator("main")).to_contain_text("there is nothing to redrive or drop")
    page.goto(letters_page(read_only, grave, from_group=group))
    expect(page.get_by_label("Commands")).to_contain_text(f"--from-group {shlex.quote(group)}")
    page.goto(letters_page(read_only, grave))
    expect(page.get_by_role("status")).to_contain_text(f"{COUNT} dead letters found")
    assert page.get_by_role("checkbox").count() == 0
    assert page.locator("main button").all_inner_texts() == ["Filter"]
    page.goto(f"{read_only.url}/dead-letters/plan?topic={grave}&do=drop-all")
    assert page.locator("main button").count() == 0


@same_with_kafka
def test_a_read_only_console_refuses_valid_forms(
    read_only: RunningConsole, page: Page, problems: Problems, grave: str, group: str
) -> None:
    def offsets_form() -> bool:
        page.goto(f"{read_only.url}/group/offsets?{urlencode({'name': group})}")
        return page.locator("input[name=token]").count() > 0

    def is_known() -> bool:
        return read_only.request(f"/group/offsets?{urlencode({'name': group})}")[0] == 200

    eventually(is_known, bool)
    assert offsets_form()
    token = page.locator("input[name=token]").first.input_value()
    send = """async ([path, form]) => (await fetch(path, {method: "POST", body: new URLSearchParams(form)})).status"""
    for path in ("/dead-letters/start", "/dead-letters/stop"):
        form = {"token": token, "topic": grave, "action": "drop", "letters": "0:0", "id": "1"}
        with problems.expected("status of 403"):
            assert page.evaluate(send, [path, form]) == 403
    page.goto(letters_page(read_only, grave))
    expect(page.get_by_role("status")).to_contain_text(f"{COUNT} dead letters found")


@same_with_kafka
def test_a_form_without_its_token_is_refused(console: RunningConsole, grave: str) -> None:
    form = {"topic": grave, "action": "drop", "letters": ""}
    assert console.request("/dead-letters/start", form)[0] == 403


@LOOKS
@same_with_kafka
def test_pages_are_accessible(
    console: RunningConsole, open_page: OpenPage, grave: str, viewport: object, colours: str
) -> None:
    page = open_page(viewport=viewport, color_scheme=colours)

    def check() -> None:
        assert_accessible(page)
        assert_fits(page)

    for path in (
        "/dead-letters",
        f"/dead-letters/topic?topic={grave}",
        f"/dead-letters/letter?topic={grave}&partition=0&offset=0",
        f"/dead-letters/plan?topic={grave}&do=drop-chosen&letter=0:0",
    ):
        page.goto(console.url + path)
        check()
    page.get_by_role("button", name="Drop 1 dead letter").click()
    expect(page.locator("#job")).to_contain_text("done")
    check()


@same_with_kafka
def test_the_keyboard_alone_is_enough(console: RunningConsole, page: Page, grave: str) -> None:
    page.goto(letters_page(console, grave))
    focused = tab_through(page)
    assert all(element.has_outline for element in focused)
    assert {"Choose 0:0", "Redrive the chosen…", "Filter"} <= {element.name for element in focused}
    page.get_by_label("Choose 0:0").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Drop the chosen").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Drop 1 dead letter")).to_be_visible()
    page.get_by_role("button", name="Drop 1 dead letter").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#job")).to_contain_text("done")


@same_with_kafka
def test_pages_work_without_javascript(console: RunningConsole, open_page: OpenPage, grave: str) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(letters_page(console, grave))
    page.get_by_label("Choose 0:3").check()
    page.get_by_role("button", name="Redrive the chosen").click()
    page.get_by_role("button", name="Redrive 1 dead letter").click()

    def state() -> str:
        page.reload()
        return page.locator("#job").inner_text()

    eventually(state, lambda text: "done" in text)
