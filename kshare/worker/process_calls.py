"""Calls plain functions in other processes, which leave signals to this one.

Ctrl-C in a terminal is sent to all processes of a program, and so is SIGTERM by systemd. They are meant for the worker,
which lets its handlers finish. So the other processes ignore them.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
from anyio import BrokenWorkerProcess, CapacityLimiter, to_process

from kshare.worker.signals import signals_received
from kshare.worker.user_functions import call_plain

# Signals are ignored before anything is imported, which may take seconds. A failed import is raised here, and not while
# anyio reads the request: anyio would read the request again then, and its answers would belong to earlier requests.
# SIG_IGN isn't used, because programs that the function starts would inherit it.
_IN_OTHER_PROCESS = """
import signal
for one in signal.SIGINT, signal.SIGTERM:
    signal.signal(one, lambda number, frame: None)
from kshare.worker.process_calls import call_pickled
call_pickled(pickled)
"""
_SIGNAL_S = 0.2
"""How much later than in another process a signal may be handled in this one."""


async def call_in_process(
    function: Callable[..., Any], arguments: tuple[Any, ...], limiter: CapacityLimiter
) -> None:
    """Call a function in a process of anyio's pool. If this is cancelled, the process is killed.

    Raises BrokenWorkerProcess if the process dies.
    """
    names = {"pickled": pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL)}
    while True:
        received = signals_received()
        try:
            await to_process.run_sync(exec, _IN_OTHER_PROCESS, names, cancellable=True, limiter=limiter)
            return
        except (BrokenWorkerProcess, KeyboardInterrupt) as error:
            # A process that has just been started doesn't ignore signals yet. If one has ended it, the function wasn't
            # called.
            await anyio.sleep(_SIGNAL_S)
            if signals_received() == received:
                raise
            if isinstance(error, KeyboardInterrupt):
                # The process goes on, but its next answer may belong to this request.
                with suppress(BrokenWorkerProcess):
                    await to_process.run_sync(os._exit, 0, cancellable=True, limiter=limiter)


def call_pickled(pickled: bytes) -> None:
    """Runs in the other process."""
    function, arguments = pickle.loads(pickled)
    call_plain(function, *arguments)
