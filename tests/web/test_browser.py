"""The browser in which the console is tested: problems that it reports, and what helpers find out about a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from playwright.sync_api import Page, ViewportSize

from tests.fakes.site import SCRIPT, STYLE, site
from tests.helpers import page_facts
from tests.helpers.accessibility import assert_accessible
from tests.helpers.browsing import DESKTOP, PHONE, Chromium, OpenPage, Problems, flawless_pages
from tests.helpers.page_facts import Focus, bytes_loaded, first_byte_ms, page_weight, screenshot, tab_through


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with site() as url:
        yield url


def test_a_page_without_problems_passes(page: Page, url: str) -> None:
    page.goto(url)
    assert page.get_attribute("h1", "data-script") == "ran"


PROBLEMS = [
    ("console.error('broken')", "console error: broken"),
    ("void setTimeout(() => { throw new Error('thrown') })", "uncaught exception: thrown"),
    ("void fetch('http://example.com/x').catch(() => 0)", "external request: http://example.com/x"),
    ("void fetch('http://192.0.2.1/x').catch(() => 0)", "external request: http://192.0.2.1/x"),
    ("void new WebSocket('ws://example.com/x')", "external request: ws://example.com/x"),
    ("void alert('injected')", "alert opened: injected"),
    (
        "void fetch('/nothing')",
        "console error: Failed to load resource: the server responded with a status of 404",
    ),
]


@pytest.mark.parametrize(("script", "problem"), PROBLEMS)
def test_problems_fail_the_test(
    chromium: Chromium, problems: Problems, url: str, script: str, problem: str
) -> None:
    def test() -> None:
        with flawless_pages(chromium, problems) as open_page:
            page = open_page()
            page.goto(f"{url}/empty?lax")
            page.evaluate(script)
            problems.wait_for(problem)

    with pytest.raises(AssertionError, match="Problems of the pages") as failed:
        test()
    assert problem in str(failed.value)


def test_a_blocked_script_is_a_problem(page: Page, problems: Problems, url: str) -> None:
    with problems.expected("Content Security Policy"):
        page.goto(f"{url}/injected")


def test_an_injected_script_is_a_problem(page: Page, problems: Problems, url: str) -> None:
    with problems.expected("alert opened: injected"):
        page.goto(f"{url}/injected?lax")


@pytest.mark.anyio
async def test_async_tests_run_in_the_process_of_the_browser(browser_is_started: None) -> None:
    await anyio.lowlevel.checkpoint()


@pytest.fixture
def browser_is_started(chromium: Chromium) -> None:
    """The browser is the process's, but not in use."""


@pytest.mark.parametrize("viewport", [PHONE, DESKTOP])
def test_pages_have_the_viewport_asked_for(open_page: OpenPage, url: str, viewport: ViewportSize) -> None:
    page = open_page(viewport)
    page.goto(url)
    assert page.evaluate("[innerWidth, innerHeight]") == [viewport["width"], viewport["height"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_the_colour_scheme_asked_for(open_page: OpenPage, scheme: str) -> None:
    assert open_page(color_scheme=scheme).evaluate(f"matchMedia('(prefers-color-scheme: {scheme})').matches")


def test_an_accessible_page_passes_under_its_policy(page: Page, url: str) -> None:
    page.goto(url)
    assert_accessible(page)
    assert_accessible(page)


def test_a_violation_says_what_is_wrong_and_where(page: Page, url: str) -> None:
    page.goto(f"{url}/no-alt")
    with pytest.raises(AssertionError) as failed:
        assert_accessible(page)
    assert str(failed.value).splitlines()[:3] == [
        f"{url}/no-alt isn't accessible:",
        "image-alt (critical): Images must have alternative text",
        '    img: <img src="/icon.svg">',
    ]


def test_the_weight_of_a_page_includes_its_assets(page: Page, url: str) -> None:
    page.goto(url)
    sizes = dict(bytes_loaded(page))
    assert sizes[f"{url}/style.css"] == len(STYLE) + 300
    assert sizes[f"{url}/script.js"] == len(SCRIPT) + 300
    assert page_weight(page) > len(STYLE) + len(SCRIPT) + 900
    assert first_byte_ms(page) > 0


def test_the_tab_key_leads_through_the_page(page: Page, url: str) -> None:
    page.goto(url)
    assert tab_through(page) == [
        Focus("link", "Home", has_outline=True),
        Focus("button", "Press", has_outline=False),
        Focus("textbox", "Name", has_outline=True),
    ]
    page.goto(f"{url}/empty")
    assert tab_through(page) == []


def test_a_screenshot_is_of_the_whole_page(
    page: Page, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_facts, "SCREENSHOTS", tmp_path)
    page.goto(url)
    assert screenshot(page, "site").read_bytes().startswith(b"\x89PNG")
