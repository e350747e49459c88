"""`python -m tools.demos.scaling`: worker processes that are started and stopped by the lag of their share group.

An embedded broker, `kshare exporter`, and a stand-in for KEDA: it reads the lag as KEDA's `metrics-api` scaler does,
and keeps lag / target worker processes running, rounded up, at most two. docs/keda/scaledobject.yaml tells KEDA to do
the same.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import HTTPError
from urllib.request import urlopen

from kshare.testing import Broker

GROUP, TOPIC = "shippers", "orders"
DEADLINE_S = 120.0
_POLL_S = 0.5
_COOLDOWN_S = 2.0
_DRAIN_S = 60.0
_KSHARE = (sys.executable, "-m", "kshare.cli")
_WORKER = f'''
import os
from pathlib import Path

import anyio

from kshare.worker import Worker

worker = Worker(group="{GROUP}")
shipped = Path(os.environ["SHIPPED"], str(os.getpid())).open("a")


@worker.handler("{TOPIC}", concurrency=5)
async def ship(order: str) -> None:
    await anyio.sleep(0.02)
    shipped.write(f"{{order}}\\n")
    shipped.flush()
'''


@dataclass(slots=True)
class Scaler:
    """The stand-in for KEDA: decides how many replicas run. Pure."""

    target: int
    most: int
    failures_before_fallback: int = 3
    cooldown_s: float = _COOLDOWN_S
    replicas: int = 0
    _failures: int = 0
    _active_at: float = -math.inf

    def decide(self, lag: int | None, now: float) -> int:
        """`lag` is None if it is unknown: then nothing is stopped, and after a while one replica is started."""
        if lag is None:
            self._failures += 1
            if self._failures >= self.failures_before_fallback:
                self.replicas = max(1, self.replicas)
            return self.replicas
        self._failures = 0
        wanted = min(self.most, math.ceil(lag / self.target))
        if wanted:
            self._active_at = now
        elif now - self._active_at < self.cooldown_s:
            wanted = min(1, self.replicas)
        self.replicas = wanted
        return wanted


@dataclass(slots=True)
class Outcome:
    history: list[tuple[int | None, int]] = field(default_factory=list)
    """The lag and the replicas, each time that one of them changed."""
    shipped: Counter[str] = field(default_factory=Counter)

    def note(self, lag: int | None, replicas: int) -> None:
        if not self.history or self.history[-1] != (lag, replicas):
            self.history.append((lag, replicas))


class Replicas:
    """Worker processes, which are stopped as Kubernetes stops containers: SIGTERM, and time to drain."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self._environment = {
            **os.environ,
            "KSHARE_BOOTSTRAP_SERVER": bootstrap,
            "SHIPPED": str(folder / "shipped"),
            "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
        }
        self._running: list[subprocess.Popen[bytes]] = []
        self._stopping: list[subprocess.Popen[bytes]] = []

    def scale(self, count: int) -> None:
        while len(self._running) < count:
            words = [*_KSHARE, "worker", "shipping:worker", "--log-level", "warning"]
            self._running.append(subprocess.Popen(words, env=self._environment))
        while len(self._running) > count:
            process = self._running.pop()
            process.send_signal(signal.SIGTERM)
            self._stopping.append(process)

    def end(self) -> None:
        self.scale(0)
        for process in self._stopping:
            try:
                process.wait(_DRAIN_S)
            finally:
                process.kill()
                process.wait()


def play(say: Callable[[str], None], *, orders: int = 600, target: int = 100) -> Outcome:
    """Two bursts of orders: the group has never run before the first, and nothing runs before the second."""
    outcome, scaler = Outcome(), Scaler(target, most=2)
    with TemporaryDirectory() as name, Broker(topics={TOPIC: 4}) as broker:
        folder = Path(name)
        (folder / "shipping.py").write_text(_WORKER, encoding="utf-8")
        (folder / "shipped").mkdir()
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        replicas = Replicas(folder, broker.bootstrap)
        try:
            with exporter(broker.bootstrap) as address:
                for burst in range(2):
                    values = [f"{burst}-{number}" for number in range(orders)]
                    broker.produce(TOPIC, [value.encode() for value in values])
                    say(f"{orders} orders written")
                    _scale_until_done(address, scaler, replicas, outcome, say)
        finally:
            replicas.end()
        for file in (folder / "shipped").iterdir():
            outcome.shipped.update(file.read_text(encoding="utf-8").split())
    return outcome


def _scale_until_done(
    address: str, scaler: Scaler, replicas: Replicas, outcome: Outcome, say: Callable[[str], None]
) -> None:
    """Until the lag was above its target, and everything is settled and stopped again."""
    deadline, has_grown = time.monotonic() + DEADLINE_S, False
    while time.monotonic() < deadline:
        lag = read_lag(address)
        count = scaler.decide(lag, time.monotonic())
        replicas.scale(count)
        if not outcome.history or outcome.history[-1] != (lag, count):
            say(f"lag {'unknown' if lag is None else lag}, replicas {count}")
        outcome.note(lag, count)
        has_grown = has_grown or (lag is not None and lag > scaler.target)
        if has_grown and (lag, count) == (0, 0):
            return
        time.sleep(_POLL_S)
    raise TimeoutError(f"not done within {DEADLINE_S:g} s: {outcome.history}")


def read_lag(address: str) -> int | None:
    """The value at `lag`, as KEDA reads it: any status but 200 is an error."""
    try:
        with urlopen(f"{address}/groups/{GROUP}", timeout=10) as response:
            lag: int = json.load(response)["lag"]
            return lag
    except HTTPError as error:
        error.close()
        return None


@contextmanager
def exporter(bootstrap: str) -> Iterator[str]:
    """Yields its address."""
    words = [*_KSHARE, "exporter", "-b", bootstrap, "--listen", "127.0.0.1:0", "--interval", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1].removesuffix("/metrics")
        finally:
            process.terminate()


def main() -> None:
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.1f} s  {text}", flush=True)

    outcome = play(say)
    again = sum(count - 1 for count in outcome.shipped.values())
    say(f"{len(outcome.shipped)} orders shipped, {again} of them more than once")


if __name__ == "__main__":
    main()
