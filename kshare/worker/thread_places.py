"""Limits the threads of a handler. A thread whose call was cancelled keeps its place until it ends."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import anyio
from anyio import from_thread, to_thread

from kshare.worker.delivery import Delivery

log = logging.getLogger("kshare.worker")


class ThreadPlaces:
    def __init__(self, handler: str, most: int) -> None:
        self._handler = handler
        self._most = most
        self._free = anyio.Semaphore(most)
        self._no_limit = anyio.CapacityLimiter(math.inf)
        self._has_told = False

    async def run(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], deliveries: Sequence[Delivery]
    ) -> None:
        """Call a function in a thread. If this is cancelled, nothing waits for the function any more."""
        await self._take(deliveries)

        def call() -> None:
            try:
                function(*arguments)
            finally:
                with suppress(RuntimeError):  # the event loop is gone
                    from_thread.run_sync(self._free.release)

        await to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._no_limit)

    async def _take(self, deliveries: Sequence[Delivery]) -> None:
        try:
            self._free.acquire_nowait()
        except anyio.WouldBlock:
            self._tell()
            for one in deliveries:
                one.is_waiting = True
            await self._free.acquire()
            for one in deliveries:
                one.is_waiting = False
        else:
            self._has_told = False

    def _tell(self) -> None:
        if not self._has_told:
            self._has_told = True
            log.error(
                "handler %s: %d threads still run functions that were cancelled, so other records wait for them. "
                "Long functions should end when `delivery.is_cancelled` is true",
                self._handler,
                self._most,
            )
