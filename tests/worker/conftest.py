from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Without a handler for SIGTERM that something else in this process has installed: workers would call it, too."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)
