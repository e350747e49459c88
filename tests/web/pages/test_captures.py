"""Captures that are loaded, in a browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from kshare.protocol.envelopes import encode_request, encode_response
from kshare.protocol.messages import SaslAuthenticateResponse, ShareFetchRequest, ShareFetchResponse
from kshare.web import loaded_input
from tests.cli import frames
from tests.cli.packets import CAPTURES
from tests.helpers.accessibility import assert_accessible
from tests.helpers.browsing import LOOKS, OpenPage, Problems
from tests.helpers.consoles import DEADLINE_S, RunningConsole
from tests.helpers.page_facts import assert_fits, page_weight, tab_through
from tests.wire.written_captures import fetches, written

expect.set_options(timeout=DEADLINE_S * 1000)

REAL = (CAPTURES / "ethernet.pcap").read_bytes()
WRONG = written(fetches(0, 1, 5))
CANARY = "<script>alert('client')</script><img src=x onerror=alert(1)>"
MOST_PAGE_BYTES = 200 * 1024


def load(page: Page, console: RunningConsole, data: bytes, name: str = "talk.pcap") -> None:
    page.goto(f"{console.url}/wire")
    page.get_by_label("File").set_input_files({"name": name, "mimeType": "", "buffer": data})
    page.get_by_role("button", name="Load the file").click()


def lines(page: Page) -> list[str]:
    return page.locator(".lines tbody tr").all_inner_texts()


def test_the_conversation_is_read(console: RunningConsole, page: Page) -> None:
    load(page, console, REAL)
    expect(page.get_by_role("heading", level=1)).to_have_text("Capture talk.pcap")
    expect(page.locator(".totals")).to_contain_text("exchanges16")
    expect(page.locator("main")).to_contain_text("clients and brokers have kept to the protocol")
    assert len(lines(page)) == 16
    assert page.get_by_role("region", name="Connections").locator("tbody tr").count() == 4


def test_findings_come_first_with_advice(console: RunningConsole, page: Page) -> None:
    load(page, console, WRONG)
    found = page.locator(".finding")
    expect(found.first).to_be_visible()
    assert re.search(r"(forbidden|harmful) [a-z-]+, \d+ time", found.first.inner_text())
    assert len(found.first.locator(".advice").inner_text()) > 20
    expect(page.locator(".lines .found").first).to_contain_text("finding")


def test_lines_are_filtered(console: RunningConsole, page: Page) -> None:
    load(page, console, REAL)
    page.get_by_label("API").select_option("ShareFetch")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".lines tbody tr")).to_have_count(3)
    page.get_by_label("API").select_option("")
    page.get_by_label("Contains").fill("SHIPPERS")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".lines tbody tr").first).to_contain_text("FindCoordinator")
    assert all("shippers" in line for line in lines(page))
    page.get_by_label("Contains").fill("")
    page.get_by_role("link", name="Exchanges of connection 3").click()
    expect(page.get_by_label("Connection", exact=True)).to_have_value("3")
    page.get_by_label("only failed").check()
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#conversation")).to_contain_text("No line matches")


def test_an_exchange_opens_with_every_byte(console: RunningConsole, page: Page) -> None:
    load(page, console, written([(frames.fetch_request(), frames.fetch_response())]))
    page.get_by_role("link", name="Open exchange 0").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Exchange 0: ShareFetch v2")
    for role, data in (("request", frames.fetch_request()), ("response", frames.fetch_response())):
        runs = page.locator(f".run[data-field^={role}]").all_inner_texts()
        assert bytes.fromhex("".join(runs)) == data[4:]
    page.locator(".run[data-field^=response]", has_text="00 00 75 30").hover()
    expect(page.locator("li.marked")).to_contain_text("acquisitionLockTimeoutMs")
    page.get_by_role("link", name="Back to the conversation").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Capture talk.pcap")


def test_exchanges_follow_each_other(console: RunningConsole, page: Page) -> None:
    load(page, console, REAL)
    page.get_by_role("link", name="Open exchange 0").click()
    page.get_by_role("link", name="Exchange after").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Exchange 1: Metadata v13")
    page.get_by_role("link", name="Exchange before").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Exchange 0: ApiVersions v3")


def test_long_conversations_are_paged(console: RunningConsole, page: Page) -> None:
    load(page, console, written(fetches(*range(250))))
    expect(page.locator("#conversation .pages")).to_contain_text("page 1 of 3")
    assert page_weight(page) < MOST_PAGE_BYTES
    page.get_by_role("link", name="Next").click()
    expect(page.locator("#conversation .pages")).to_contain_text("page 2 of 3")
    expect(page.get_by_role("link", name="Open exchange 100")).to_be_visible()


def test_passwords_are_on_no_page(console: RunningConsole, page: Page) -> None:
    response = bytes(encode_response(SaslAuthenticateResponse(), 2, 3))
    load(page, console, written([(frames.login(), response)]))
    expect(page.locator(".lines")).to_contain_text("SaslAuthenticate")
    shown = page.content()
    page.get_by_role("link", name="Open exchange 0").click()
    expect(page.locator(".fields").first).to_contain_text("masked")
    for text in (shown, page.content()):
        assert frames.PASSWORD.decode() not in text
        assert frames.PASSWORD.hex(" ") not in text


def test_damage_is_said(console: RunningConsole, page: Page) -> None:
    load(page, console, REAL[:-200] + b"\xff" * 100)
    expect(page.locator(".note.problem").nth(1)).to_contain_text("The capture is damaged")
    assert len(lines(page)) > 5


def test_encrypted_connections_are_said(console: RunningConsole, page: Page) -> None:
    hello = b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03" + bytes(41)
    load(page, console, written([(hello, b"\x16\x03\x03\x00\x04\x02\x00\x00\x00")]))
    expect(page.locator("main")).to_contain_text("encrypted (TLS) and not shown")
    expect(page.locator("main")).to_contain_text("There is no Kafka traffic to look at")


def test_what_took_too_long_is_said(
    console: RunningConsole, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_input, "DEADLINE_S", -1.0)
    load(page, console, REAL)
    expect(page.locator(".note.warning").first).to_contain_text("reading took too long")


@pytest.mark.parametrize("data", [b"", b"Dear diary, no capture!", REAL[:10]], ids=["empty", "text", "cut"])
def test_what_is_no_capture_is_explained(
    console: RunningConsole, page: Page, problems: Problems, data: bytes
) -> None:
    with problems.expected("status of 400"):
        load(page, console, data, f"{CANARY}.pcap")
        expect(page.get_by_role("alert")).to_be_visible()


def test_what_a_capture_contains_is_only_text(console: RunningConsole, page: Page) -> None:
    request = ShareFetchRequest(CANARY, CANARY, 7)
    exchange = (
        bytes(encode_request(request, 2, 1, CANARY)),
        bytes(encode_response(ShareFetchResponse(error_code=-1, error_message=CANARY), 2, 1)),
    )
    load(page, console, written([exchange]), f'">{CANARY}.pcap')
    expect(page.get_by_role("heading", level=1)).to_contain_text(CANARY.rpartition("/")[2])
    expect(page.locator(".lines")).to_contain_text(CANARY)
    page.get_by_role("link", name="Open exchange 0").click()
    expect(page.locator(".fields").first).to_contain_text(CANARY)
    page.goto(page.url.replace("/exchange", "/capture") + f"&q={CANARY}&api={CANARY}&connection={CANARY}")
    expect(page.locator("#conversation")).to_contain_text("No line matches")


@pytest.mark.parametrize("path", ["capture", "exchange"])
def test_only_the_browser_that_loaded_it_gets_it(
    console: RunningConsole, page: Page, open_page: OpenPage, problems: Problems, path: str
) -> None:
    load(page, console, REAL)
    expect(page.locator(".lines")).to_be_visible()
    with problems.expected("status of 404"):
        other = open_page()
        other.goto(page.url.replace("/capture", f"/{path}") + "&number=0")
        expect(other.get_by_role("alert")).to_contain_text("load it again")


@pytest.mark.parametrize("number", ["16", "-1", "x", "", "9" * 40, CANARY])
def test_unknown_exchanges_are_refused(
    console: RunningConsole, page: Page, problems: Problems, number: str
) -> None:
    load(page, console, REAL)
    expect(page.locator(".lines")).to_be_visible()
    with problems.expected("status of 404"):
        page.goto(page.url.replace("/capture", "/exchange") + f"&number={number}")
        expect(page.get_by_role("alert")).to_contain_text("has no exchange")


@LOOKS
def test_pages_are_accessible(
    console: RunningConsole, open_page: OpenPage, viewport: object, colours: str
) -> None:
    page = open_page(viewport=viewport, color_scheme=colours)

    def check() -> None:
        page.wait_for_load_state()  # before it, the style sheet may be missing
        assert_accessible(page)
        assert_fits(page)

    load(page, console, WRONG)
    expect(page.locator(".finding").first).to_be_visible()
    check()
    page.get_by_role("link", name="Open exchange 2").click()
    expect(page.locator(".hex").first).to_be_visible()
    check()


def test_the_keyboard_alone_is_enough(console: RunningConsole, page: Page) -> None:
    load(page, console, REAL)
    page.wait_for_url("**/wire/capture?*")  # a page that is being left can't be loaded again
    page.reload()
    focused = tab_through(page)
    assert all(element.has_outline for element in focused)
    assert {"API", "Filter", "Open exchange 15"} <= {element.name for element in focused}
    page.get_by_role("link", name="Open exchange 15").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Exchange 15: ShareGroupHeartbeat v1")


def test_everything_works_without_javascript(console: RunningConsole, open_page: OpenPage) -> None:
    page = open_page(java_script_enabled=False)
    load(page, console, REAL)
    page.get_by_label("only failed").check()
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#conversation")).to_contain_text("No line matches")
    page.go_back()
    page.get_by_role("link", name="Open exchange 3").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Exchange 3: Produce v10")
