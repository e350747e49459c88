"""SIGINT and SIGTERM: the worker stops, the user's own handlers still run, and a second signal cancels."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from types import FrameType
from typing import Any, Literal

import anyio
import pytest

from kshare.testing import Broker
from kshare.worker import Worker
from kshare.worker.signals import SignalCount, on_stop_signals

pytestmark = pytest.mark.usefixtures("default_signals")


def test_handlers_installed_before_run_too_and_are_installed_again() -> None:
    seen: list[object] = []

    def own(number: int, frame: FrameType | None) -> None:
        seen.append(("own", number))

    before = signal.signal(signal.SIGTERM, own)
    try:
        with on_stop_signals(seen.append):
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [signal.SIGTERM, ("own", signal.SIGTERM)]


def test_python_raises_no_keyboard_interrupt() -> None:
    seen: list[signal.Signals] = []
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # Spark's sessions leave one of their own
    try:
        with on_stop_signals(seen.append):
            signal.raise_signal(signal.SIGINT)
        assert seen == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_ignored_signals_stay_ignored() -> None:
    """Shells ignore SIGINT for programs in the background."""
    seen: list[signal.Signals] = []
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with on_stop_signals(seen.append):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == []


def test_handlers_installed_meanwhile_are_kept() -> None:
    def later(number: int, frame: FrameType | None) -> None: ...

    before = signal.getsignal(signal.SIGTERM)
    try:
        with on_stop_signals(lambda which: None):
            signal.signal(signal.SIGTERM, later)
        assert signal.getsignal(signal.SIGTERM) is later
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_leave_signals_alone() -> None:
    found: list[object] = []

    def run() -> None:
        with on_stop_signals(lambda which: None):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]


@pytest.mark.lengthy
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_signal_before_the_event_loop_runs_is_not_lost(
    backend: Literal["asyncio", "trio"], kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    kshare_broker.create_topic("orders")
    worker = Worker(kshare_broker.bootstrap, group="g")
    started: list[bool] = []
    worker.on_startup(lambda: started.append(True))

    @worker.handler("orders")
    async def ship(value: bytes) -> None: ...

    run = anyio.run

    def run_late(*arguments: Any, **options: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return run(*arguments, **options)

    monkeypatch.setattr(anyio, "run", run_late)
    worker.run(backend=backend)
    assert not started


PROGRAM = """
import os, signal, sys
import anyio
from kshare.worker import Worker

bootstrap, backend = sys.argv[1:]
signal.signal(signal.SIGTERM, lambda number, frame: os.write(1, b"own handler\\n"))  # printing isn't reentrant
worker = Worker(bootstrap, group="g", drain_timeout=60)

@worker.on_startup
def started():
    print("started", flush=True)

@worker.on_shutdown
def ended():
    print("ended", flush=True)

@worker.handler("orders")
async def ship(value: bytes):
    print("processing", flush=True)
    try:
        await anyio.sleep(0.2 if value == b"short" else 1000)
    except BaseException:
        print("cancelled", flush=True)
        raise
    print("processed", flush=True)

worker.run(backend=backend)
print("returned", flush=True)
"""


@pytest.mark.lengthy
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("value", [b"short", b"long"])
def test_worker_program(backend: str, value: bytes, kshare_broker: Broker) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    kshare_broker.produce("orders", [value])
    command = [sys.executable, "-c", PROGRAM, kshare_broker.bootstrap, backend]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
        watchdog = threading.Timer(60, program.kill)
        watchdog.start()
        assert program.stdout is not None
        lines = []
        signals = [signal.SIGTERM] if value == b"short" else [signal.SIGTERM, signal.SIGTERM]
        for line in program.stdout:
            lines.append(line.strip())
            if line.strip() in ("processing", "own handler") and signals:
                program.send_signal(signals.pop())
        watchdog.cancel()
    if value == b"short":
        assert lines == ["started", "processing", "own handler", "processed", "ended", "returned"]
    else:
        given_up = lines.pop(4)
        assert "stopped before its calls had ended (it was told to stop again): 1 call cancelled" in given_up
        assert lines == [
            "started",
            "processing",
            "own handler",
            "own handler",
            "cancelled",
            "ended",
            "returned",
        ]
    assert program.returncode == 0


def test_signals_that_stop_nothing_do_not_end_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that a supervisor and a terminal send, one counts."""
    monkeypatch.setattr("kshare.worker.signals._PATIENCE_S", 0.0)
    ended: list[signal.Signals] = []
    monkeypatch.setattr("kshare.worker.signals._end_process", ended.append)
    signals = SignalCount()
    for stops in (1, 0, 0, 1):
        signals.note(signal.SIGTERM, stops)
    assert ended == []
    signals.note(signal.SIGTERM, 0)
    assert ended == [signal.SIGTERM]
