"""More signals than one, for commands that run until they are stopped."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

from kshare.cli.terminal.stop_signals import stop_signals
from kshare.testing import Broker
from tests.cli.terminals import Terminal

ANY_PORT = ["--listen", "127.0.0.1:0"]
COMMANDS = {
    "broker": (["broker", "--port", "0"], "listening on"),
    "consume": (["consume", "-t", "orders", "-g", "readers"], "value"),
    "exporter": (["exporter", *ANY_PORT], "metrics:"),
    "trace": (["trace", *ANY_PORT], "Ctrl-C ends it"),
    "web": (["web", *ANY_PORT], "kshare web:"),
}
"""Command → its command line, and what it prints when it is ready."""
FEW = 3
BURSTS = [*[(FEW, 0.001)] * 4, (1_000_000, 0.002)]
"""How many signals, and the seconds between them. The last goes on until the process has ended."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as broker:
        broker.set_group_config("readers", {"share.auto.offset.reset": "earliest"})
        yield broker


@pytest.mark.lengthy
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", COMMANDS)
def test_repeated_signals_end_it_as_one_does(
    broker: Broker, command: str, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others arrive while it ends. They used to interrupt that: it hung, printed tracebacks, or was killed."""
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)
    words, ready = COMMANDS[command]
    for count, gap_s in BURSTS:
        broker.produce("orders", [b"value"])
        with Terminal(*words) as terminal:
            terminal.until(ready)
            while count and terminal.process.poll() is None:
                terminal.process.send_signal(number)
                time.sleep(gap_s)
                count -= 1
            assert terminal.end() == (128 + number if command == "consume" else 0), terminal.text
            for trouble in ("Traceback", "Exception ignored", "Error", "a bug in kshare"):
                assert trouble not in terminal.text


def test_only_the_first_signal_counts() -> None:
    acts: list[str] = []
    with stop_signals() as signals:
        signals.then(lambda: acts.append("first"))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            signal.raise_signal(number)
        signals.then(lambda: acts.append("late"))
    assert (signals.first, acts) == (signal.SIGTERM, ["first", "late"])


def test_a_signal_ends_the_wait_of_an_event_loop_even_if_it_came_before() -> None:
    with stop_signals() as signals:

        async def raise_signal() -> None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(signals.call, tasks.cancel_scope.cancel)
                await anyio.wait_all_tasks_blocked()
                signal.raise_signal(signal.SIGINT)
                await anyio.sleep_forever()

        anyio.run(raise_signal)
        anyio.run(signals.wait)
    assert signals.first is signal.SIGINT


def test_what_was_installed_before_is_again_afterwards() -> None:
    """A command may run within another program, whose processes would inherit ignored signals."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with stop_signals():
        signal.raise_signal(signal.SIGINT)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_other_threads_can_use_it_without_signals() -> None:
    def work() -> signal.Signals | None:
        with stop_signals() as signals:
            return signals.first

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() is None
