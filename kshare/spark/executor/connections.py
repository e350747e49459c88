"""The connections of a Python process to its clusters, kept between tasks, since Spark reuses its workers.

They are opened when first requested, shared by callers with the same settings, and closed when the process ends or too
many clusters are connected. They run in a separate event loop, in a thread that doesn't keep the process alive. A
forked process starts without any.
"""

from __future__ import annotations

import atexit
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack
from threading import Lock
from typing import TypeVar

import anyio
from anyio.from_thread import start_blocking_portal

from kshare.admin.log_reading import LogReader
from kshare.admin.read_replicas import LogPartition
from kshare.admin.routing import Router
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings

T = TypeVar("T")

_MOST = 4
_TIMEOUT_S = 120.0
"""For one request, retries included: long enough for a new leader to be elected."""
_REACH_S = 30.0
"""For a first connection: long enough for a broker to restart."""


class Connections:
    """The connections to one cluster. `submit` may be called from any thread."""

    def __init__(self, settings: NetSettings) -> None:
        self._exit_stack = ExitStack()
        self._portal = self._exit_stack.enter_context(
            start_blocking_portal("asyncio", name="kshare connections")
        )
        pool = self._exit_stack.enter_context(self._portal.wrap_async_context_manager(Pool(settings)))
        self.router = Router(pool, _TIMEOUT_S)
        self._try_s = settings.request_timeout
        self._readers: dict[tuple[bool, str | None], LogReader] = {}
        self.sizes: dict[LogPartition, float] = {}
        """Bytes per offset by partition, as measured so far. Determines how much to ask for."""

    def reader(self, *, is_committed_only: bool, rack: str | None) -> LogReader:
        """The reader that remembers which brokers to ask."""
        key = (is_committed_only, rack)
        if key not in self._readers:
            self._readers[key] = LogReader(
                self.router, is_committed_only=is_committed_only, try_s=self._try_s, rack=rack
            )
        return self._readers[key]

    def reach(self) -> None:
        """Connect to any broker, or raise what keeps us from it: requests would be retried for much longer."""
        self._portal.call(_reach, self.router.pool)

    def submit(self, function: Callable[..., Awaitable[T]], *args: object) -> Future[T]:
        return self._portal.start_task_soon(function, *args)

    def entered(self, context: AbstractAsyncContextManager[T]) -> AbstractContextManager[T]:
        """The same context, for this thread: enters and exits it in the loop."""
        return self._portal.wrap_async_context_manager(context)

    def on_close(self, function: Callable[[], object]) -> None:
        """Call this function before the connections are closed."""
        self._exit_stack.callback(function)

    def close(self) -> None:
        self._exit_stack.close()


async def _reach(pool: Pool) -> None:
    async def step(deadline: float) -> None:
        limit = deadline - anyio.current_time()
        await pool.bootstrap(timeout=min(limit, pool.settings.request_timeout))

    await Router(pool, _REACH_S).retry(step)


_open: OrderedDict[NetSettings, Connections] = OrderedDict()
_lock = Lock()
_inherited: list[object] = []


def connections(settings: NetSettings) -> Connections:
    """This process's connections to the cluster with these settings."""
    with _lock:
        found = _open.get(settings)
        if found is None:
            found = _open[settings] = Connections(settings)
        _open.move_to_end(settings)
        excess = [_open.popitem(last=False)[1] for _ in range(len(_open) - _MOST)]
    for cluster in excess:
        cluster.close()
    return found


def close_connections() -> None:
    """Closes all connections; they are opened again when requested."""
    with _lock:
        closing = list(_open.values())
        _open.clear()
    for cluster in closing:
        cluster.close()


def _reset_after_fork() -> None:
    """A forked child doesn't have the loop's thread, so the parent's connections can't be used here."""
    global _open, _lock
    # Kept alive: closing them, even by garbage collection, would wait for that thread.
    _inherited.append(_open)
    _open, _lock = OrderedDict(), Lock()


atexit.register(close_connections)
os.register_at_fork(after_in_child=_reset_after_fork)
