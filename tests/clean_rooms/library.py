"""Producers, consumers, their blocking twins and a worker, on asyncio, with nothing but kshare."""

import asyncio
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import kshare.sync
from kshare import Producer, ShareConsumer
from kshare.installation import is_compiled
from kshare.testing import Broker

assert is_compiled()
assert not [name for name in ("pytest", "sniffio", "trio") if find_spec(name)], "other packages than required"


async def main(bootstrap: str) -> None:
    async with Producer(bootstrap) as producer:
        await producer.send("orders", b"tea")
    async with ShareConsumer(bootstrap, group="readers", topics=["orders"]) as consumer:
        async for record in consumer:
            assert record.value == b"tea"
            break


def main_sync(bootstrap: str) -> None:
    with kshare.sync.Producer(bootstrap) as producer:
        producer.send("orders", b"milk")
    with kshare.sync.ShareConsumer(bootstrap, group="packers", topics=["orders"]) as consumer:
        seen: list[bytes | None] = []
        for record in consumer:
            seen.append(record.value)
            if len(seen) == 2:
                break
        assert seen == [b"tea", b"milk"]


with Broker(topics={"orders": 1}) as broker:
    for group in ("readers", "packers", "shippers"):
        broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    asyncio.run(main(broker.bootstrap))
    main_sync(broker.bootstrap)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("shop.py")],
        env={**os.environ, "KSHARE_BOOTSTRAP_SERVER": broker.bootstrap},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "shipped tea" in done.stdout, (done.stdout, done.stderr)
