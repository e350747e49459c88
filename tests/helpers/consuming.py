"""A consumer of a tiny cluster, and functions that wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from kshare import (
    ShareConsumer,
)
from kshare.client.record import ShareRecord
from tests.fakes.tiny_cluster import TinyCluster

DEADLINE_S = 30.0


def consumer(cluster: TinyCluster, *topics: str, **options: Any) -> ShareConsumer:
    return ShareConsumer(cluster.bootstrap, group="g", topics=topics, **options)


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(DEADLINE_S):
        while not is_so():
            await anyio.sleep(0.002)


async def next_of(source: ShareConsumer) -> ShareRecord:
    with anyio.fail_after(DEADLINE_S):
        async for record in source:
            return record
    raise AssertionError("the loop ended")
