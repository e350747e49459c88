"""Share-partitions that stand still between two looks at the stored state, on the embedded broker."""

from __future__ import annotations

import pytest

from kshare import ShareConsumer
from kshare.admin.routing import Router
from kshare.monitor.stored_topic import StoredTopic
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.testing import Broker

pytestmark = pytest.mark.anyio


async def test_records_that_are_held_and_not_settled(
    kshare_broker: Broker, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshare.monitor.stalls.LONG_S", 0.0)
    kshare_broker.create_topic("orders")
    kshare_broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    kshare_broker.produce("orders", [b"x"] * 5)
    async with (
        ShareConsumer(
            kshare_broker.bootstrap,
            group="g",
            topics=["orders"],
            acknowledgement="explicit",
            client_id="truck",
        ) as consumer,
        Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool,
    ):
        record = await anext(aiter(consumer))
        record.accept()
        await consumer.commit()  # the others are held
        topic = StoredTopic(Router(pool, 10), "g")
        await topic.open()
        said: list[str] = []
        for _ in range(2):
            async for _ in topic.entries():
                pass
            notes = await topic.notes(await topic.progress(topic.states))
            said.append(" ".join(notes.stalls.values()))
    assert said[0] == "", "one reading can't tell"
    assert said[1].startswith(
        "orders[0]: 4 records wait from offset 1 on, and nothing was settled or released"
    )
    assert "assigned to truck (" in said[1]
