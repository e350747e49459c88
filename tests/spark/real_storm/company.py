"""Another consumer of the group besides the query, which processes its share of the records one by one."""

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
    """`done`: the records it has processed, and when each was last delivered to it.

    It accepts them then, but the response may be lost: so it isn't always known whether an acceptance was confirmed.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, pause_s: float) -> None:
        self.done: dict[Where, float] = {}
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._pause_s = pause_s

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Run in a separate thread. Its exception is raised at the end."""
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
