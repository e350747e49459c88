"""Bytes that are pasted or loaded, in a browser."""

from __future__ import annotations

import base64
import re
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page, expect

from kshare.protocol.compression import Compression
from kshare.protocol.envelopes import encode_request
from kshare.protocol.messages import ShareFetchRequest
from kshare.protocol.record_builder import BatchBuilder
from kshare.web.byte_pages import PAGE_BYTES
from kshare.web.loaded_input import MOST_IN_LINK, NAMING, packed
from tests.cli import frames
from tests.helpers.accessibility import assert_accessible
from tests.helpers.browsing import LOOKS, OpenPage, Problems
from tests.helpers.consoles import DEADLINE_S, RunningConsole, session
from tests.helpers.page_facts import assert_fits, page_weight, tab_through

expect.set_options(timeout=DEADLINE_S * 1000)

CANARY = "<script>alert('topic')</script><img src=x onerror=alert(1)>"
MOST_PAGE_BYTES = 512 * 1024


def paste(page: Page, console: RunningConsole, text: str, **hints: str) -> None:
    page.goto(f"{console.url}/wire")
    page.get_by_label("Hex, base64").fill(text)
    for label, value in hints.items():
        page.get_by_label(label).fill(value)
    page.get_by_role("button", name="Name the bytes").click()


def load(page: Page, console: RunningConsole, data: bytes, name: str = "bytes") -> None:
    page.goto(f"{console.url}/wire")
    page.get_by_label("File").set_input_files(
        {"name": name, "mimeType": "application/octet-stream", "buffer": data}
    )
    page.get_by_role("button", name="Load the file").click()


def heading(page: Page) -> str:
    return page.get_by_role("heading", level=1).inner_text()


@pytest.mark.parametrize("name", ["a consumer's request", "the broker's response"])
def test_examples_are_named(console: RunningConsole, page: Page, name: str) -> None:
    page.goto(f"{console.url}/wire")
    page.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("^ShareFetch(Request|Response) v2$"))
    assert page.locator(".note.warning, .fields .w-error").count() == 0


def test_pasted_bytes_are_named_and_the_address_opens_the_same(
    console: RunningConsole, page: Page, open_page: OpenPage
) -> None:
    paste(page, console, frames.fetch_response().hex(" "))
    expect(page.get_by_role("heading", level=1)).to_have_text("ShareFetchResponse v2")
    expect(page.locator(".fields")).to_contain_text('value "order 0"')
    shown = page.locator(".hex").inner_text()
    assert (
        bytes.fromhex("".join(page.locator(".run[data-field]").all_inner_texts())) == frames.fetch_response()
    )
    other = open_page()
    other.goto(page.url)
    assert other.locator(".hex").inner_text() == shown
    assert other.locator(".fields").inner_text() == page.locator(".fields").inner_text()


def test_hints_decide_and_are_in_the_address(console: RunningConsole, page: Page) -> None:
    paste(page, console, frames.fetch_response().hex(), API="ShareFetch", Version="1")
    expect(page.get_by_role("heading", level=1)).to_have_text("ShareFetchResponse v1")
    page.reload()
    assert heading(page) == "ShareFetchResponse v1"
    page.get_by_label("Kind").fill("ShareSnapshotKey")
    page.get_by_label("API").fill("")
    page.get_by_label("Version").fill("")
    page.get_by_role("button", name="Read it so").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("ShareSnapshotKey v0")


def test_other_guesses_are_links(console: RunningConsole, page: Page) -> None:
    paste(page, console, frames.fetch_response().hex())
    page.locator(".guesses").get_by_role("link", name="ShareFetchResponse v1").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("ShareFetchResponse v1")
    assert page.get_by_label("API").input_value() == "ShareFetch"
    paste(page, console, frames.fetch_response()[:95].hex())
    page.get_by_role("link", name="FetchResponse v18", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("FetchResponse v18")


@pytest.mark.parametrize(
    ("text", "hints", "reason"),
    [
        ("", {}, "no bytes at all"),
        ("hello, world!", {}, "isn't hex, base64"),
        ("abc", {}, "even number"),
        ("00 01", {"API": "Fetsch"}, "did you mean 'Fetch'"),
        ("00 01", {"Version": "x"}, "isn't a version"),
        ("0a0d0d0a" + "00" * 20, {}, "load it as a file"),
    ],
)
def test_text_that_is_not_bytes_is_explained_and_kept(
    console: RunningConsole, page: Page, problems: Problems, text: str, hints: dict[str, str], reason: str
) -> None:
    with problems.expected("status of 400"):
        paste(page, console, text, **hints)
        expect(page.get_by_role("alert")).to_contain_text(reason)
    assert page.get_by_label("Hex, base64").input_value() == text


def test_a_damaged_batch_is_a_problem_of_its_bytes(console: RunningConsole, page: Page) -> None:
    damaged = bytearray(frames.batch())
    damaged[-1] ^= 1
    paste(page, console, damaged.hex(), Kind="records")
    expect(page.locator(".note.problem")).to_contain_text(["records[0].crc, byte 17"])
    expect(page.locator(".run.w-error").first).to_have_attribute("title", re.compile("crc"))


def test_other_bytes_are_doubted(console: RunningConsole, page: Page) -> None:
    paste(page, console, "deadbeef" * 8)
    expect(page.locator(".note.warning")).to_contain_text("doesn't look like Kafka data")


@pytest.mark.parametrize(
    ("data", "doubt", "others"),
    [
        (
            frames.fetch_response()[:143],
            "the bytes can't be read to their end as ShareFetchResponse v2",
            "breaks off",
        ),
        (
            frames.fetch_response()[:30],
            "the bytes can't be read to their end as ShareSnapshotValue",
            "MetadataResponse",
        ),
        (
            frames.fetch_response()[:12],
            "other messages fit these bytes about as well, such as",
            "fits about as well",
        ),
    ],
)
def test_uncertain_readings_are_said_to_be(
    console: RunningConsole, page: Page, data: bytes, doubt: str, others: str
) -> None:
    paste(page, console, data.hex())
    expect(page.locator(".note.warning")).to_contain_text("This reading is uncertain: ")
    expect(page.locator(".note.warning")).to_contain_text(doubt)
    readings = page.locator(".guesses li").all_inner_texts()
    assert all(others in reading for reading in readings) or others == readings[0].split()[0], readings
    assert len({"breaks off" in reading for reading in readings}) == 1, (
        "only complete readings, if there are any"
    )


def test_a_hint_does_not_hide_that_others_fit(console: RunningConsole, page: Page) -> None:
    paste(page, console, frames.fetch_response()[:12].hex(), Kind="response")
    expect(page.locator(".note.warning")).to_contain_text("other messages fit these bytes about as well")


def test_other_versions_that_fit_are_links(console: RunningConsole, page: Page) -> None:
    paste(page, console, frames.fetch_response().hex())
    said = page.locator(".note", has_text="Other versions fit these bytes about as well")
    said.get_by_role("link", name="ShareFetchResponse v1").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("ShareFetchResponse v1")
    assert said.count() == 0  # the address says now which version it is


def test_passwords_are_masked_and_in_no_address(console: RunningConsole, page: Page) -> None:
    paste(page, console, frames.login().hex())
    expect(page.get_by_role("heading", level=1)).to_have_text("SaslAuthenticateRequest v2")
    expect(page.locator("main")).to_contain_text("contain a password, which is masked")
    for text in (page.content(), page.url):
        for secret in (frames.PASSWORD.decode(), frames.PASSWORD.hex(" "), packed(frames.PASSWORD)[2:-2]):
            assert secret not in text
    assert "/wire/message?id=" in page.url
    assert page.get_by_role("link", name="Link to share").count() == 0


def test_longer_input_is_kept_and_has_a_link(
    console: RunningConsole, page: Page, open_page: OpenPage, problems: Problems
) -> None:
    builder = BatchBuilder()
    for number in range(200):
        builder.append(b"order %d" % number * 5, timestamp=1)
    data = bytes(builder.build())
    load(page, console, data)
    expect(page.get_by_role("heading", level=1)).to_have_text("records")
    kept = page.url
    page.get_by_role("link", name="Next").first.click()
    expect(page.locator(".hex")).to_contain_text(f"{PAGE_BYTES:06x}")
    page.get_by_role("link", name="Link to share").click()
    expect(page.locator("main")).to_contain_text("The address of this page contains the bytes")
    other = open_page()
    other.goto(page.url)
    assert other.locator(".hex").inner_text() == page.locator(".hex").inner_text()
    with problems.expected("status of 404"):
        other.goto(kept)  # another browser
        expect(other.get_by_role("alert")).to_contain_text("aren't kept any longer")


def test_a_segment_has_parts(console: RunningConsole, page: Page) -> None:
    load(page, console, frames.state_segment(), "00000000000000000000.log")
    expect(page.locator("main")).to_contain_text("Part 1 of 2, from byte 0")
    page.get_by_label("Part").select_option("2")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("main")).to_contain_text("Part 2 of 2")
    expect(page.locator(".fields").first).to_contain_text("records[1]")


@pytest.mark.parametrize("size", [MOST_IN_LINK, NAMING.bytes + 1])
def test_pages_stay_light_whatever_is_given(console: RunningConsole, open_page: OpenPage, size: int) -> None:
    page = open_page()
    load(page, console, (frames.fetch_request() * (1 + size // 100))[:size])
    expect(page.locator(".hex")).to_be_visible()
    assert page_weight(page) < MOST_PAGE_BYTES
    is_cut = size > NAMING.bytes
    assert ("bytes were read" in page.locator("main").inner_text()) == is_cut


def test_a_bomb_of_records_is_cut(console: RunningConsole, page: Page) -> None:
    builder = BatchBuilder(compression=Compression.GZIP)
    for _ in range(40):
        builder.append(bytes(1 << 20), timestamp=1)
    data = bytes(builder.build())
    assert len(data) < 1 << 17
    load(page, console, data)
    expect(page.locator(".hex").first).to_be_visible()
    assert page_weight(page) < MOST_PAGE_BYTES
    assert page.locator(".note").count() > 0


def test_what_bytes_contain_is_only_text(console: RunningConsole, page: Page, problems: Problems) -> None:
    request = ShareFetchRequest(group_id=CANARY, member_id=CANARY)
    data = bytes(encode_request(request, 2, correlation_id=7, client_id=CANARY))
    paste(page, console, data.hex())
    expect(page.locator(".fields")).to_contain_text(CANARY)
    builder = BatchBuilder()
    builder.append(CANARY.encode(), key=CANARY.encode(), timestamp=1, headers=[(CANARY, CANARY.encode())])
    load(page, console, bytes(builder.build()), f'"{CANARY}')
    expect(page.locator(".fields")).to_contain_text(CANARY)
    with problems.expected("status of 400"):
        paste(page, console, CANARY, Kind=CANARY)
        expect(page.get_by_role("alert")).to_be_visible()
    with problems.expected("status of 400"):
        page.goto(
            f"{console.url}/wire?bytes=AAAA&kind={quote(CANARY)}&api={quote(CANARY)}&part={quote(CANARY)}"
        )
        expect(page.get_by_role("alert")).to_contain_text(CANARY)


def test_pointing_at_bytes_names_them_and_marks_their_field(console: RunningConsole, page: Page) -> None:
    paste(page, console, frames.fetch_response().hex())
    run = page.locator(".run", has_text="00 00 75 30")
    expect(run).to_have_attribute("title", "16-19 acquisitionLockTimeoutMs int32 30000")
    run.hover()
    expect(page.locator(".byte-name")).to_have_text("16-19 acquisitionLockTimeoutMs int32 30000")
    expect(page.locator("li.marked")).to_contain_text("acquisitionLockTimeoutMs")
    run.click()
    marked = page.url
    page.goto("about:blank")
    page.goto(marked)
    expect(page.locator("li.marked")).to_contain_text("acquisitionLockTimeoutMs")
    page.locator(".fields li", has_text="partitionIndex").last.hover()
    expect(page.locator(".run.marked")).to_have_attribute("title", re.compile("partitionIndex"))


def test_the_keyboard_alone_is_enough(console: RunningConsole, page: Page) -> None:
    paste(page, console, frames.fetch_response().hex())
    page.reload()
    focused = tab_through(page)
    assert all(element.has_outline for element in focused)
    assert len(focused) < 60
    assert "Bytes 0 to 190 of the message" in [element.name for element in focused]
    page.get_by_role("region", name="Bytes 0 to 190").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".byte-name")).to_have_text("0-3 size size 187")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".byte-name")).to_have_text("4-7 header.correlationId int32 7")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".byte-name")).to_have_text("0-3 size size 187")
    page.get_by_role("group").filter(has_text="correlationId").locator("summary").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("correlationId")).to_be_hidden()


@LOOKS
def test_pages_are_accessible(
    console: RunningConsole, open_page: OpenPage, viewport: object, colours: str
) -> None:
    damaged = bytearray(frames.batch(compression=Compression.GZIP))
    damaged[20] ^= 1
    page = open_page(viewport=viewport, color_scheme=colours)
    for path in (
        "/wire",
        f"/wire?bytes={packed(frames.fetch_response())}",
        f"/wire?bytes={packed(bytes(damaged))}&kind=records",
        f"/wire?bytes={packed(frames.state_segment())}&part=2",
    ):
        page.goto(console.url + path)
        assert_accessible(page)
        assert_fits(page)
    page.locator(".run").first.hover()
    assert_accessible(page)


def test_everything_works_without_javascript(console: RunningConsole, open_page: OpenPage) -> None:
    page = open_page(java_script_enabled=False)
    paste(page, console, frames.fetch_response().hex())
    expect(page.get_by_role("heading", level=1)).to_have_text("ShareFetchResponse v2")
    expect(page.locator(".run").first).to_have_attribute("title", "0-3 size size 187")
    expect(page.locator(".fields")).to_contain_text("0-3 size 187")
    page.locator("summary", has_text="ResponseHeader").click()
    expect(page.get_by_text("correlationId")).to_be_hidden()


@pytest.fixture(scope="module")
def browser_session(console: RunningConsole) -> tuple[dict[str, str], str]:
    """A browser's cookie, and the token of its forms."""
    return session(console, "/wire")


FRAMES = st.sampled_from(
    [frames.fetch_request(), frames.fetch_response(), frames.batch(), frames.login(), frames.state_segment()]
)
BYTES = st.binary(max_size=300) | st.builds(
    lambda data, cut, more: data[:cut] + more, FRAMES, st.integers(0, 200), st.binary(max_size=9)
)
TEXTS = (
    st.text(max_size=200)
    | BYTES.map(bytes.hex)
    | BYTES.map(repr)
    | BYTES.map(lambda data: base64.b64encode(data).decode())
)
HINTS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["", "request", "response", "records", "state", "ShareUpdateValue"])
        | st.text(max_size=9),
        "api": st.sampled_from(["", "78", "ShareFetch"]) | st.text(max_size=9),
        "version": st.sampled_from(["", "0", "2", "-1", "99"]) | st.text(max_size=9),
    }
)
any_input = settings(
    max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


@pytest.mark.lengthy
@any_input
@example("0000001000240002" + 31 * "00", {"kind": "request", "api": "", "version": "2"})
@given(TEXTS, HINTS)
def test_any_text_is_named_or_explained(
    console: RunningConsole, browser_session: tuple[dict[str, str], str], text: str, hints: dict[str, str]
) -> None:
    headers, token = browser_session
    form = {"token": token, "text": text, **hints}
    encodable = {name: value.encode(errors="replace").decode() for name, value in form.items()}
    status, found, shown = console.request("/wire", encodable, headers)
    if status == 303:
        location = urlsplit(found["location"])
        status, _, shown = console.request(f"{location.path}?{location.query}", headers=headers)
        assert status == 200
        assert 'class="hex"' in shown
    else:
        assert status == 400
        assert 'role="alert"' in shown


@pytest.mark.lengthy
@any_input
@given(BYTES.map(packed) | st.text(max_size=30), HINTS, st.text(max_size=5), st.text(max_size=5))
def test_any_link_is_opened_or_explained(
    console: RunningConsole, link: str, hints: dict[str, str], part: str, number: str
) -> None:
    parameters = {"bytes": link, **hints, "part": part, "page": number}
    query = "&".join(f"{name}={quote(value.encode(errors='replace'))}" for name, value in parameters.items())
    status, _, shown = console.request(f"/wire?{query}")
    assert status in (200, 400)
    assert ('role="alert"' in shown) == (status == 400)


@pytest.mark.parametrize("form", [{}, {"token": "0" * 64}])
def test_other_sites_cannot_load_anything(
    console: RunningConsole, browser_session: tuple[dict[str, str], str], form: dict[str, str]
) -> None:
    assert console.request("/wire", {**form, "text": "00"}, browser_session[0])[0] == 403


def test_a_text_that_is_too_long_is_refused(console: RunningConsole, page: Page, problems: Problems) -> None:
    with problems.expected("status of 400"):
        paste(page, console, "00" * (1 << 20))
        expect(page.get_by_role("alert")).to_contain_text("load it as a file")
