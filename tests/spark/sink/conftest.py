"""A broker for the tests of tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshare.spark.executor.connections import close_connections
from kshare.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as opened:
        yield opened
        close_connections()
