"""A consumer that logs in with SASL."""

import asyncio

from kshare import ShareConsumer
from kshare.testing import Broker


async def main(bootstrap: str) -> None:
    async with ShareConsumer(
        bootstrap,
        group="readers",
        topics=["orders"],
        sasl_mechanism="SCRAM-SHA-256",
        username="alice",
        password="hush",
    ) as consumer:
        async for record in consumer:
            assert record.value == b"tea"
            break


with Broker(topics={"orders": 1}, users={"alice": "hush"}) as broker:
    broker.set_group_config("readers", {"share.auto.offset.reset": "earliest"})
    broker.produce("orders", [b"tea"])
    asyncio.run(main(broker.bootstrap))
