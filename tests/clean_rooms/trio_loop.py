"""A consumer and a worker on trio."""

import os
import subprocess
import sys
from pathlib import Path

import trio

from kshare import Producer, ShareConsumer
from kshare.testing import Broker


async def main(bootstrap: str) -> None:
    async with Producer(bootstrap) as producer:
        await producer.send("orders", b"tea")
    async with ShareConsumer(bootstrap, group="readers", topics=["orders"]) as consumer:
        async for record in consumer:
            assert record.value == b"tea"
            break


with Broker(topics={"orders": 1}) as broker:
    for group in ("readers", "shippers"):
        broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    trio.run(main, broker.bootstrap)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("shop.py"), "trio"],
        env={**os.environ, "KSHARE_BOOTSTRAP_SERVER": broker.bootstrap},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "shipped tea" in done.stdout, (done.stdout, done.stderr)
