"""Another consumer of the group, beside the query: takes its share, a record at a time, and finishes it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import anyio
from anyio.from_thread import start_blocking_portal

from kshare import ShareConsumer

Where = tuple[int, int]

_MOST = 50


class Company:
    """`done`: which records it has worked on, and when it was last given each. Their acceptance is sent then, and the
    answer may be lost: so it can't be known of each of them whether it counts."""

    def __init__(self, bootstrap: str, group: str, topic: str, pause_s: float) -> None:
        self.done: dict[Where, float] = {}
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._pause_s = pause_s

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """In a thread of its own; what it fails by is raised at the end."""
        with start_blocking_portal() as portal:
            future: Future[None] = portal.start_task_soon(self._work)
            try:
                yield
            finally:
                if not future.done():
                    future.cancel()
                else:
                    future.result()

    async def _work(self) -> None:
        async with ShareConsumer(
            self._bootstrap,
            group=self._group,
            topics=[self._topic],
            max_records=_MOST,
        ) as consumer:
            async for record in consumer:
                given = time.time()
                await anyio.sleep(self._pause_s)
                self.done[record.partition, record.offset] = given
