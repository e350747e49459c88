"""A headless Chromium whose pages must be flawless: each problem that a page has fails its test.

Problems are errors on the console, uncaught exceptions, dialogs (an injected script would open one), and requests to
another host or port than the page's own. The browser can't reach others anyway.

Tests use Playwright's synchronous API. It runs an event loop in the test's thread, suspended between calls, which
asyncio takes for a running one: `Chromium.in_use` says so to asyncio only while a test uses the browser, so that async
tests can run in the same process. A test with a page runs async code in another thread.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    ViewportSize,
    sync_playwright,
)

from tools import chromium

PHONE = ViewportSize(width=360, height=740)
DESKTOP = ViewportSize(width=1440, height=900)
LOOKS = pytest.mark.parametrize(
    ("viewport", "colours"), [(PHONE, "light"), (DESKTOP, "dark")], ids=["360-light", "1440-dark"]
)
"""Layout depends on the width, and contrast on the colours: each is shown once."""

OpenPage = Callable[..., Page]
"""Opens a page in a context of its own. Takes the options of Playwright's `Browser.new_context`, such as `viewport`,
`color_scheme` and `java_script_enabled`."""

_DEADLINE_S = 60.0
_POLL_MS = 10.0
_STOPPED = "net::ERR_CONNECTION_REFUSED"
_ONLY_LOOPBACK = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"


class Chromium:
    """A browser that tests use one after another."""

    def __init__(self, browser: Browser, loop: asyncio.AbstractEventLoop) -> None:
        self._browser = browser
        self._loop = loop

    @contextmanager
    def in_use(self) -> Iterator[Browser]:
        with _running(self._loop):
            yield self._browser


@contextmanager
def launched(folder: Path) -> Iterator[Chromium]:
    """Start the system's Chromium. It keeps its files in this folder, and its profile in a temporary one."""
    program = chromium.found()
    if program is None:
        raise FileNotFoundError(chromium.MISSING)
    with sync_playwright() as playwright:
        # Chromium's sandbox doesn't work as root, nor in most containers. Pages are our own.
        browser = playwright.chromium.launch(
            executable_path=program,
            chromium_sandbox=False,
            args=[_ONLY_LOOPBACK],
            env={**os.environ, "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder)},
        )
        with browser:
            loop = asyncio.get_running_loop()
            with _running(None):
                yield Chromium(browser, loop)


@contextmanager
def _running(loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    """Make asyncio take this loop for the running one."""
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(before)


class Problems:
    """What went wrong on the pages of a test."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._pages: list[Page] = []

    @contextmanager
    def expected(self, text: str) -> Iterator[None]:
        """Waits at its end for a problem that contains this text, and forgives all of those."""
        yield
        self.wait_for(text)
        self._found = [problem for problem in self._found if text not in problem]

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while not any(text in problem for problem in self._found):
            assert time.monotonic() < deadline, f"no problem with {text!r}, only {self._found}"
            self._pages[-1].wait_for_timeout(_POLL_MS)

    def check(self) -> None:
        """Fails if there were any. At its end, a test stops its console, and a page may ask for news once more."""
        found = [problem for problem in self._found if _STOPPED not in problem]
        assert not found, "Problems of the pages:\n" + "\n".join(found)

    def watch(self, context: BrowserContext) -> None:
        """Note the problems of all pages in this context."""
        own: list[str] = []
        """The host and port of its first request."""

        def on_url(url: str) -> None:
            split = urlsplit(url)
            if split.scheme in ("http", "https", "ws", "wss"):
                own.append(split.netloc)
                if split.netloc != own[0]:
                    self._found.append(f"external request: {url}")

        def on_page(page: Page) -> None:
            self._pages.append(page)
            page.on("websocket", lambda socket: on_url(socket.url))

        context.on("page", on_page)
        context.on("request", lambda request: on_url(request.url))
        context.on("console", self._on_console)
        context.on("weberror", lambda problem: self._note("uncaught exception", str(problem.error)))
        context.on("dialog", self._on_dialog)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._note("console error", message.text)

    def _on_dialog(self, dialog: Dialog) -> None:
        self._note(f"{dialog.type} opened", dialog.message)
        dialog.dismiss()

    def _note(self, kind: str, text: str) -> None:
        self._found.append(f"{kind}: {text}")


@contextmanager
def flawless_pages(chromium: Chromium, problems: Problems) -> Iterator[OpenPage]:
    """Opens pages, closes them at the end, and then checks that they had no problems."""
    with chromium.in_use() as browser:
        contexts: list[BrowserContext] = []

        def open_page(viewport: ViewportSize = DESKTOP, **options: object) -> Page:
            context = browser.new_context(viewport=viewport, **options)  # type: ignore[arg-type]
            contexts.append(context)
            context.set_default_timeout(1000 * _DEADLINE_S)
            problems.watch(context)
            return context.new_page()

        try:
            yield open_page
        finally:
            for context in contexts:
                context.close()
    problems.check()
