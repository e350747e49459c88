"""Limits the threads of a handler. A thread whose call was cancelled keeps its place until it ends."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import anyio
from anyio import from_thread, to_thread

from kshare.worker.records.delivery import Delivery


class ThreadPlaces:
    def __init__(self, most: int, on_full: Callable[[], None]) -> None:
        self._on_full = on_full
        self._free = anyio.Semaphore(most)
        self._no_limit = anyio.CapacityLimiter(math.inf)

    async def run(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], deliveries: Sequence[Delivery]
    ) -> None:
        """Call a function in a thread. If this is cancelled, nothing waits for the function any more."""
        await self._take(deliveries)
        is_decided = threading.Lock()  # whether the function is called: by whoever takes this

        def call() -> None:
            if not is_decided.acquire(blocking=False):
                return  # cancelled before
            try:
                function(*arguments)
            finally:
                with suppress(RuntimeError):  # the event loop is gone
                    from_thread.run_sync(self._free.release)

        try:
            await to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._no_limit)
        except BaseException:
            if is_decided.acquire(blocking=False):  # the function hasn't been called, and won't be
                self._free.release()
            raise

    async def _take(self, deliveries: Sequence[Delivery]) -> None:
        try:
            self._free.acquire_nowait()
        except anyio.WouldBlock:
            self._on_full()
            for delivery in deliveries:
                delivery.is_waiting = True
            await self._free.acquire()
            for delivery in deliveries:
                delivery.is_waiting = False
