"""Restarting sessions gives back what isn't settled. Acknowledgements are confirmed before."""

from __future__ import annotations

import anyio
import pytest

from kshare import ShareConsumer
from kshare.client.consumer import source_of
from kshare.errors import AcknowledgeError
from kshare.testing import Broker
from tests.helpers.consuming import DEADLINE_S

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("release", "deliveries"), [("4.1", 1), ("4.4", 2)])
async def test_what_is_not_settled_comes_back(release: str, deliveries: int) -> None:
    with Broker(release=release, topics={"t": 1}) as broker:  # type: ignore[arg-type]
        broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        broker.produce("t", [b"%d" % number for number in range(4)])
        async with ShareConsumer(
            broker.bootstrap, group="g", topics=["t"], acknowledgement="explicit"
        ) as consumer:
            with anyio.fail_after(DEADLINE_S):
                first, second, *_ = before = [*await consumer.next_batch()]
                first.accept()
                await source_of(consumer).restart_sessions()
                with pytest.raises(AcknowledgeError):
                    second.accept()
                after = [*await consumer.next_batch()]
        assert [record.offset for record in before] == [0, 1, 2, 3]
        assert [(record.offset, record.delivery_count) for record in after] == [
            (offset, deliveries) for offset in (1, 2, 3)
        ]


async def test_nothing_has_to_be_held(kshare_broker: Broker) -> None:
    kshare_broker.create_topic("t")
    kshare_broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    async with ShareConsumer(kshare_broker.bootstrap, group="g", topics=["t"]) as consumer:
        with anyio.fail_after(DEADLINE_S):
            await source_of(consumer).restart_sessions()
            kshare_broker.produce("t", [b"1"])
            await consumer.next_batch()
            for _ in range(2):
                await source_of(consumer).restart_sessions()
                assert len(await consumer.next_batch()) == 1
