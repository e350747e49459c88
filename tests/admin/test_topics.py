"""Ensuring that a topic exists: it may be there already, and this user may not be allowed to create it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kshare.admin.routing import Router
from kshare.admin.topics import ensure_topic
from kshare.errors import BrokerError, NotAuthorized
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import CreateTopicsRequest, CreateTopicsResponse
from kshare.testing import Broker

pytestmark = pytest.mark.anyio


@pytest.fixture
async def router(kshare_broker: Broker) -> AsyncIterator[Router]:
    async with Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool:
        await pool.bootstrap()
        yield Router(pool, 20)


async def test_a_topic_that_exists_is_left_alone(router: Router) -> None:
    assert await ensure_topic(router, "copies", 2, None, {}) is None
    assert await ensure_topic(router, "copies", 3, None, {}) is None
    assert len((await router.metadata(["copies"])).topics[0].partitions) == 2


async def test_a_refusal_is_returned_and_other_errors_are_raised(
    router: Router, kshare_broker: Broker
) -> None:
    def refuse(response: CreateTopicsResponse) -> None:
        response.topics[0].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    kshare_broker.faults.add(CreateTopicsRequest, change=refuse)
    refusal = await ensure_topic(router, "copies", 1, None, {})
    assert isinstance(refusal, NotAuthorized)
    assert refusal.lack == "User:ANONYMOUS lacks Create on topic copies"
    with pytest.raises(BrokerError, match="creating topic others: INVALID_CONFIG"):
        await ensure_topic(router, "others", 1, None, {"no.such": "1"})
