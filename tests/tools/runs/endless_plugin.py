"""A pytest plugin that hangs before the tests start."""

from __future__ import annotations

import time


def pytest_sessionstart() -> None:
    time.sleep(3600)
