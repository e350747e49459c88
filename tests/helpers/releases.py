"""Which releases of Kafka a test runs on that starts a cluster of its own."""

from __future__ import annotations

import pytest

from tools.kafka.jars import NEWEST_RELEASE, TESTED_RELEASES

newest_first = pytest.mark.parametrize(
    "release",
    [
        pytest.param(release, marks=[] if release == NEWEST_RELEASE else pytest.mark.long)
        for release in TESTED_RELEASES
    ],
)
"""On the newest one, and in long runs on all: for tests that take a minute, most of it to start clusters."""
