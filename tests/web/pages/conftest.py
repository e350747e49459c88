"""A console without a cluster: the wire's pages need none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.consoles import RunningConsole, running_console


@pytest.fixture(scope="module")
def console() -> Iterator[RunningConsole]:
    with running_console("127.0.0.1:1") as running:
        yield running
