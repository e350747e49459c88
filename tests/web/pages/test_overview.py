"""The overview: what is counted, and what is marked."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from kshare import sync
from kshare.testing import Broker
from tests.helpers.consoles import StartConsole, eventually

TRACKER = "kshare-dlq-dlq.orders"


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    kshare_broker.produce("orders", [b"x"])
    for group in ("packers", TRACKER):
        kshare_broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
        with sync.ShareConsumer(kshare_broker.bootstrap, group=group, topics=["orders"]) as consumer:
            next(iter(consumer))
    return kshare_broker


@pytest.mark.lengthy
def test_groups_that_track_dead_letters_are_counted_and_marked(start: StartConsole) -> None:
    console = start()
    text = eventually(lambda: console.request("/")[2], lambda text: f"{TRACKER}</a>" in text)
    assert "1 of the groups keeps track of dead letters." in text
    assert f"{TRACKER}</a> <small>keeps track of dead letters</small>" in text
    assert text.count("<small>keeps track of dead letters</small>") == 1
    assert "Members and lag are those of the others" in text


@pytest.mark.lengthy
def test_a_dead_letter_topic_that_does_not_exist_is_marked(start: StartConsole, broker: Broker) -> None:
    """As `kshare doctor` says it."""
    broker.set_group_config("packers", {"errors.deadletterqueue.topic.name": "dlq.none"})
    console = start()
    mark = 'dlq.none <strong class="mark problem">doesn&#39;t exist</strong>'
    text = eventually(lambda: console.request("/")[2], lambda text: f"{TRACKER}</a>" in text)
    assert mark in text
    assert mark in console.request("/group?name=packers")[2]


@pytest.mark.lengthy
@pytest.mark.parametrize(("group", "is_tracking"), [(TRACKER, True), ("packers", False)])
def test_the_page_of_a_group_that_tracks_dead_letters_says_so(
    start: StartConsole, group: str, is_tracking: bool
) -> None:
    console = start()
    path = f"/group?name={group}"
    text = eventually(lambda: console.request(path)[2], lambda text: "orders[0]" in text)
    said = (
        'keeps track of the dead letters in <a href="/dead-letters/topic?topic=orders">orders</a>: it settles'
    )
    assert (said in text) == is_tracking


@pytest.mark.lengthy
def test_what_is_wrong_comes_before_the_groups(broker: Broker, start: StartConsole) -> None:
    with sync.ShareConsumer(broker.bootstrap, group="packers", topics=["orders"]) as consumer:
        next(iter(consumer)).accept()
        consumer.commit()
    console = start()
    calm = eventually(lambda: console.request("/")[2], lambda text: "No problems. Checked at" in text)
    assert calm.index("packers</a>") < calm.index("No problems")
    broker.produce("orders", [b"y"])  # nobody reads it
    troubled = eventually(lambda: console.request("/")[2], lambda text: "start its consumers" in text)
    assert troubled.index("start its consumers") < troubled.index("packers</a></th>")
    assert troubled.index('<a href="#groups">') < troubled.index("start its consumers")
    assert '<a href="/group?name=packers">group packers</a>: it has no members' in troubled
    assert troubled.count("What the checks have found") == 1
    assert "it has no members, and 1 record of orders waits" in console.request("/group?name=packers")[2]


@pytest.mark.lengthy
@pytest.mark.parametrize("path", ["/", "/group?name=packers"])
def test_the_rate_at_which_records_are_written_is_shown(
    broker: Broker, start: StartConsole, path: str
) -> None:
    console = start()

    def written() -> float:
        broker.produce("orders", [b"y"])
        text = console.request(path)[2]
        cells = re.findall(r'data-name="Written/s">([\d.]+)<|>written/s</dt><dd>([\d.]+)<', text)
        return max((float(cell or other) for cell, other in cells), default=0.0)

    assert eventually(written, lambda rate: rate > 0)


def let_presses_last(page: Page) -> None:
    """The page ends a press after three seconds, which a busy machine needs to read the cluster."""
    page.add_init_script(
        "const real = setTimeout; window.setTimeout = (run, ms) => real(run, ms === 3000 ? 60000 : ms)"
    )


def press(page: Page, link: Locator) -> None:
    """If the page changes before the button is down, something else may be under the mouse."""
    for _ in range(5):
        link.hover()
        page.mouse.down()
        if link.evaluate("link => link.matches(':active')"):
            return
        page.mouse.up()
    raise AssertionError("the link can't be pressed")


def test_a_link_is_followed_although_the_page_changes_while_it_is_pressed(
    page: Page, broker: Broker, start: StartConsole
) -> None:
    console = start()
    let_presses_last(page)
    page.goto(f"{console.url}/?q=packers")
    row = page.get_by_role("row", name="packers")
    press(page, row.get_by_role("link"))
    broker.produce("orders", [b"x"] * 77)
    eventually(lambda: console.request("/?q=packers")[2], lambda text: ">78<" in text)
    page.wait_for_timeout(700)  # pages look for news every 250 ms
    assert "78" not in row.inner_text()
    page.mouse.up()
    page.wait_for_url("**/group?name=packers")


def test_the_page_is_updated_after_a_press(page: Page, broker: Broker, start: StartConsole) -> None:
    console = start()
    page.goto(f"{console.url}/?q=packers")
    page.get_by_role("heading", level=1).hover()
    page.mouse.down()
    broker.produce("orders", [b"x"] * 77)
    eventually(lambda: console.request("/?q=packers")[2], lambda text: ">78<" in text)
    page.mouse.up()
    expect(page.get_by_role("row", name="packers")).to_contain_text("78")


@pytest.mark.parametrize("button", [0, 2])
def test_the_page_is_updated_although_the_end_of_a_press_is_not_reported(
    page: Page, broker: Broker, start: StartConsole, button: int
) -> None:
    """As when the right button, or a long press, opens a menu: browsers don't tell that it was released."""
    console = start()
    page.goto(f"{console.url}/?q=packers")
    page.evaluate("(button) => document.dispatchEvent(new PointerEvent('pointerdown', {button}))", button)
    broker.produce("orders", [b"x"] * 77)
    expect(page.get_by_role("row", name="packers")).to_contain_text("78", timeout=20_000)


def test_the_focus_stays_on_its_link_when_a_row_is_inserted_before_it(
    page: Page, broker: Broker, start: StartConsole
) -> None:
    console = start()
    page.goto(console.url)
    page.get_by_role("link", name="packers", exact=True).focus()
    broker.set_group_config("bakers", {"share.auto.offset.reset": "earliest"})
    with sync.ShareConsumer(broker.bootstrap, group="bakers", topics=["orders"]) as consumer:
        next(iter(consumer))
        expect(page.get_by_role("link", name="bakers", exact=True)).to_be_visible(timeout=20_000)
    assert page.evaluate("document.activeElement.textContent") == "packers"


def test_a_button_is_pressed_by_the_space_bar_although_the_page_changes_meanwhile(
    page: Page, broker: Broker, start: StartConsole
) -> None:
    console = start()
    let_presses_last(page)
    page.goto(f"{console.url}/?q=packers")
    page.evaluate(
        """() => {
            window.clicks = 0;
            const button = document.createElement("button");
            button.onclick = () => { window.clicks += 1; };
            document.getElementById("groups").append(button);
            button.focus();
        }"""
    )
    page.keyboard.down(" ")
    broker.produce("orders", [b"x"] * 77)
    eventually(lambda: console.request("/?q=packers")[2], lambda text: ">78<" in text)
    page.wait_for_timeout(700)  # pages look for news every 250 ms
    page.keyboard.up(" ")
    assert page.evaluate("window.clicks") == 1
    expect(page.get_by_role("row", name="packers")).to_contain_text("78")
