"""A signal that arrives while the event loop of a worker starts isn't lost."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from kshare.worker import Worker

pytestmark = pytest.mark.usefixtures("default_signals")


@pytest.mark.lengthy
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_signal_before_the_loop_runs_stops_the_worker(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def caller() -> Callable[[Callable[[], None]], object]:
        signal.raise_signal(signal.SIGTERM)
        return lambda act: act()

    monkeypatch.setattr("kshare.worker.worker.caller_in_this_loop", caller)
    worker = Worker("127.0.0.1:1", group="g")  # connecting would fail

    @worker.handler("orders")
    async def ship(value: bytes) -> None: ...

    worker.run(backend="trio" if backend == "trio" else "asyncio")
