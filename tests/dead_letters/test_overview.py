"""Counting the dead letters of several topics."""

from __future__ import annotations

import pytest

from kshare import sync
from kshare.admin.routing import Router
from kshare.dead_letters.letter_states import default_group
from kshare.dead_letters.overview import LetterCounter, LetterCounts
from kshare.net.pool import Pool
from kshare.protocol.messages import FetchRequest
from kshare.testing import Broker
from tests.fakes.peer import settings

pytestmark = pytest.mark.anyio
TOPIC = "dlq.orders"


async def test_stored_states_are_read_once_for_all_topics(kshare_broker: Broker) -> None:
    kshare_broker.create_topic(TOPIC)
    kshare_broker.produce(TOPIC, [b"a", b"b", b"c"])
    group = default_group(TOPIC)
    kshare_broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    with sync.ShareConsumer(
        kshare_broker.bootstrap, group=group, topics=[TOPIC], acknowledgement="explicit"
    ) as consumer:
        next(iter(consumer)).accept()
    fetches: list[None] = []
    kshare_broker.faults.add(FetchRequest, times=None, do=lambda: fetches.append(None))
    host, port = kshare_broker.bootstrap.rsplit(":", 1)
    async with Pool(settings((host, int(port)))) as pool:
        counter = LetterCounter(Router(pool, 10.0))
        assert await counter.count(TOPIC) == LetterCounts(3, 1)
        read = len(fetches)
        assert read > 0
        assert await counter.count(TOPIC) == LetterCounts(3, 1)
        assert len(fetches) == read
