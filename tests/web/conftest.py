"""A browser for the tests of the console. Tests that use it are marked `browser`, and must be synchronous.

It is started once in each process. Starting takes less than a second, so these tests are distributed by module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Page

from kshare.testing import Broker
from tests.helpers.browsing import Chromium, OpenPage, Problems, flawless_pages, launched
from tests.helpers.consoles import RunningConsole, StartConsole, running_console


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with launched(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture
def problems() -> Problems:
    """What goes wrong on the pages of the test. A test that means it says so: `with problems.expected("404")`."""
    return Problems()


@pytest.fixture
def open_page(chromium: Chromium, problems: Problems) -> Iterator[OpenPage]:
    """Opens pages; fails at the end if any had a problem."""
    with flawless_pages(chromium, problems) as open_page:
        yield open_page


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    """A page on a desktop, in a light colour scheme."""
    return open_page()


@pytest.fixture
def start(broker: Broker) -> Iterator[StartConsole]:
    """`broker` is the module's own."""
    with ExitStack() as stack:

        def started(**options: object) -> RunningConsole:
            return stack.enter_context(running_console(broker.bootstrap, **options))

        yield started
