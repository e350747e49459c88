"""Producers, consumers, their blocking twins and a worker, on asyncio, with nothing but kshare."""

import asyncio
from importlib.util import find_spec

import kshare.sync
from kshare.installation import is_compiled
from kshare.testing import Broker

from .shared import run_shop, start_at_the_beginning, write_and_read

assert is_compiled()
assert not [name for name in ("pytest", "sniffio", "trio") if find_spec(name)], "other packages than required"


def write_and_read_blocking(bootstrap: str) -> None:
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
    start_at_the_beginning(broker, "readers", "packers", "shippers")
    asyncio.run(write_and_read(broker.bootstrap))
    write_and_read_blocking(broker.bootstrap)
    run_shop(broker.bootstrap)
