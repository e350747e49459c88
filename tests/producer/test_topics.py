"""The topics that are written to, as metadata responses describe them."""

from __future__ import annotations

from typing import Any

import pytest

from kshare.admin.routing import Router
from kshare.errors import IncompleteResponse
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.producer.topics import WrittenTopics
from kshare.protocol.messages import MetadataRequest
from kshare.testing import Broker

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("is_listed", [False, True])
async def test_a_topic_that_the_response_leaves_out(kshare_broker: Broker, is_listed: bool) -> None:
    def change(answer: Any) -> None:
        for topic in answer.topics:
            topic.partitions.clear()
        if not is_listed:
            answer.topics.clear()

    kshare_broker.create_topic("orders")
    kshare_broker.faults.add(MetadataRequest, times=None, change=change)
    missing = "the partitions of topic orders" if is_listed else "topic orders"
    async with Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool:
        with pytest.raises(IncompleteResponse, match=f"Metadata says nothing about {missing}:"):
            await WrittenTopics(Router(pool, 5)).find("orders")
