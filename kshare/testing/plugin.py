"""pytest fixtures: `kshare_broker`, one node, and `kshare_cluster`, three. Both are fresh for each test.

Installed with kshare; nothing is loaded before a test asks for one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kshare.testing import Broker


@pytest.fixture
def kshare_broker() -> Iterator[Broker]:
    """An embedded broker; clients connect to `kshare_broker.bootstrap`."""
    from kshare.testing import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def kshare_cluster() -> Iterator[Broker]:
    """Three embedded nodes, whose leaders and coordinators can be moved and stopped."""
    from kshare.testing import Broker

    with Broker(nodes=3) as cluster:
        yield cluster
