"""`admin`: an AdminClient of the embedded broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kshare import AdminClient
from kshare.testing import Broker


@pytest.fixture
async def admin(kshare_broker: Broker, anyio_backend: str) -> AsyncIterator[AdminClient]:
    async with AdminClient(kshare_broker.bootstrap, request_timeout=20) as client:
        yield client
