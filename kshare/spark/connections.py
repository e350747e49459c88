"""Connections of a Python process to its clusters, kept from task to task: Spark reuses its workers.

Decides when they are made (when first asked for), shared (by whoever has the same settings), and closed (when the
process ends, or too many clusters were read from). They live in an event loop of their own, in a thread that never
keeps a process alive. A process that was forked begins without any.
"""

from __future__ import annotations

import atexit
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import ExitStack
from threading import Lock
from typing import TypeVar

from anyio.from_thread import start_blocking_portal

from kshare.admin.log_reading import LogReader, Place
from kshare.admin.routing import Router
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings

T = TypeVar("T")

_MOST = 4
_PATIENCE_S = 120.0
"""For one piece of a log, or one question, all tries together: a leader's successor is elected within that."""


class Connections:
    """To one cluster. `submit` may be called from any thread."""

    def __init__(self, settings: NetSettings) -> None:
        self._life = ExitStack()
        self._portal = self._life.enter_context(start_blocking_portal("asyncio", name="kshare connections"))
        pool = self._life.enter_context(self._portal.wrap_async_context_manager(Pool(settings)))
        self.router = Router(pool, _PATIENCE_S)
        self.readers = {
            is_committed_only: LogReader(
                self.router, is_committed_only=is_committed_only, try_s=settings.request_timeout
            )
            for is_committed_only in (False, True)
        }
        self.sizes: dict[Place, float] = {}
        """Bytes an offset takes, as far as anybody has seen: guides how much is asked for."""

    def submit(self, function: Callable[..., Awaitable[T]], *args: object) -> Future[T]:
        return self._portal.start_task_soon(function, *args)

    def close(self) -> None:
        self._life.close()


_open: OrderedDict[NetSettings, Connections] = OrderedDict()
_lock = Lock()
_of_parents: list[object] = []


def connections(settings: NetSettings) -> Connections:
    """This process's, to that cluster."""
    with _lock:
        found = _open.get(settings)
        if found is None:
            found = _open[settings] = Connections(settings)
        _open.move_to_end(settings)
        superfluous = [_open.popitem(last=False)[1] for _ in range(len(_open) - _MOST)]
    for one in superfluous:
        one.close()
    return found


def close_connections() -> None:
    """All of them; they are made again when asked for."""
    with _lock:
        closing = list(_open.values())
        _open.clear()
    for one in closing:
        one.close()


def _start_anew() -> None:
    """In a forked child the loop's thread isn't there: what the parent has open stays the parent's."""
    global _open, _lock
    # Never let go of here: whoever closes them, the garbage collector too, waits for that thread.
    _of_parents.append(_open)
    _open, _lock = OrderedDict(), Lock()


atexit.register(close_connections)
os.register_at_fork(after_in_child=_start_anew)
