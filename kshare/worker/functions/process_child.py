"""Runs in another process: reads calls of plain functions, makes them, and writes how they ended.

The pipes are its own: what the functions print goes to the standard output of the worker, processes that they start
don't inherit them, and forks close them. Ctrl-C in a terminal is sent to all processes of a program, and so is SIGTERM
by systemd. Both are meant for the worker, which lets its handlers finish, so they are ignored here. Until then they are
blocked: see `process_pool`.
"""

from __future__ import annotations

import multiprocessing.spawn
import os
import pickle
import signal
from collections.abc import Callable
from typing import Any, BinaryIO

from kshare.worker.functions.interrupts import STOP_SIGNALS
from kshare.worker.functions.process_failures import failure_as_bytes
from kshare.worker.functions.process_frames import read_frame, write_frame
from kshare.worker.functions.user_functions import HandlerExit, call_plain


def main(output: int | None) -> None:
    """`output`: a descriptor of the worker's standard output. The first call prepares the process."""
    _ignore_signals()
    calls, outcomes = _own_pipes(output)
    is_prepared = False
    while (frame := read_frame(calls)) is not None:
        number, content = frame
        process = os.getpid()
        ended = _called(content) if is_prepared else _called(content, multiprocessing.spawn.prepare)
        if os.getpid() != process:
            return  # the function has forked, and this is the other process
        write_frame(outcomes, number, ended)
        is_prepared = True


def _called(content: bytes, function: Callable[..., Any] | None = None) -> bytes:
    """Call this function, or the one that was sent. Returns nothing if it has returned, and otherwise its exception."""
    process = os.getpid()
    try:
        sent, arguments = pickle.loads(content)
        call_plain(function or sent, *arguments)
    except Exception as error:
        if os.getpid() == process:
            return failure_as_bytes(error)
        if isinstance(error, HandlerExit) and error.__cause__ is not None:
            raise error.__cause__ from None  # SystemExit ends a fork as usual
        raise
    return b""


def _ignore_signals() -> None:
    for stop_signal in STOP_SIGNALS:
        # Not SIG_IGN, which programs that the functions start would inherit.
        signal.signal(stop_signal, lambda number, frame: None)
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def _own_pipes(output: int | None) -> tuple[BinaryIO, BinaryIO]:
    calls, outcomes = os.dup(0), os.dup(1)  # these aren't inherited
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing if output is None else output, 1)
    os.close(nothing)
    if output is not None:
        os.close(output)
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=lambda: _close(calls, outcomes))
    return open(calls, "rb", closefd=False), open(outcomes, "wb", closefd=False)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
