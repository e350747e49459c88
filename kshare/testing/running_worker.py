"""Runs a whole worker on an embedded broker, in a thread, with a clock that the test sets forward.

    with run_worker(worker) as running:
        running.produce("orders", b"first")
        running.advance(600)
        running.wait_until_settled()

Real time goes on, and `advance` adds to it: for the worker's event loop, for its time of day and for the broker. It
does that in small steps, and lets the worker and the broker react to each. In a single step, all locks would expire
before the worker could renew them. If time stood still between steps, timeouts and threads wouldn't work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.lowlevel import checkpoint

from kshare.broker.clock import JumpingClock
from kshare.errors import ConfigError, KshareError
from kshare.protocol.records import Record
from kshare.testing.broker import Broker
from kshare.worker import Worker
from kshare.worker.settle.retry_group import retry_group
from kshare.worker.watch.counts import Counts

if TYPE_CHECKING:
    import asyncio

    from kshare.testing.options import BrokerOptions
    from kshare.worker.run.runner import HandlerRunner

T = TypeVar("T")
Backend = Literal["asyncio", "trio"]

_LONGEST_STEP_S = 1.0
_STEPS_PER_LOCK = 10
"""Locks are renewed when two thirds of them have passed: several steps before they expire."""
_STABLE_ROUNDS = 3
"""After so many rounds without a change, the worker has done what it can do now."""
_MAX_ROUNDS = 1_000
_POLL_S = 0.002
_STOP_LIMIT_S = 30.0


class RunningWorker:
    """A worker that runs on an embedded broker. `broker` is that broker; its methods can be used as well."""

    def __init__(
        self,
        worker: Worker,
        broker: Broker,
        clock: JumpingClock,
        time_of_worker: _Time,
        portal: BlockingPortal,
    ) -> None:
        self.worker = worker
        self.broker = broker
        self._clock = clock
        self._time = time_of_worker
        self._portal = portal
        self._serving: Future[None] = Future()
        self._runners: list[HandlerRunner] = []
        self._has_ended = False

    def start(self) -> None:
        serve = partial(self.worker.serve, wall_clock=self._time.wall_clock)
        self._serving, _ = self._portal.start_task(serve)
        self._runners = self._portal.call(
            lambda: self.worker.runners
        )  # the worker forgets them when it stops

    def produce(
        self,
        topic: str,
        *values: bytes | None,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        partition: int = 0,
    ) -> None:
        """Write records to a topic."""
        self.broker.produce(topic, values, key=key, headers=headers, partition=partition)

    def records(self, topic: str) -> list[Record]:
        """All records of a topic, such as one for dead letters."""
        return self.broker.records(topic)

    @property
    def counts(self) -> dict[str, Counts]:
        """What each handler has done so far, by its name. Can still be read after the end of the `with` block."""
        return self._counts() if self._has_ended else self._call(self._counts)

    def advance(self, seconds: float) -> None:
        """Set the clock forward by this many seconds, after the worker has done everything that it can do now.

        Ten minutes take about two seconds of real time. Events happen in the order in which they become due, within a
        second of its time. Async handlers see the time pass, for example in `anyio.sleep`; `time.time()` and plain
        functions don't.
        """
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
            raise ConfigError(f"seconds must be 0 or more, not {seconds!r}")
        self._settle(5 * _STABLE_ROUNDS)
        longest = self._longest_step()
        until = self._call(self._time.now) + seconds
        while (left := until - self._call(self._time.now)) > 0:
            step = min(left, longest, self._call(self._until_due))
            self._call(partial(self._time.jump, step))
            self.broker.call(lambda step=step: self._clock.jump(round(step * 1000)))  # type: ignore[misc]
            self._settle(_STABLE_ROUNDS)

    def wait_until(self, condition: Callable[[], object], timeout: float = 10.0) -> None:
        """Wait until the condition is true, for at most this many seconds of real time."""
        deadline = time.monotonic() + timeout
        while not condition():
            self._require_running()
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {timeout:g} s. {self._situation()}")
            time.sleep(_POLL_S)

    def wait_until_settled(self, timeout: float = 10.0) -> None:
        """Wait until all records of the handlers' topics, and of their retry topics, are settled.

        What is held, or waits in a retry topic, isn't settled before its time: set the clock forward first.
        """
        self.wait_until(lambda: not self._unsettled(), timeout)

    def stop(self) -> None:
        """Stop the worker. Running handlers may finish."""
        self._call(self.worker.stop)
        self._serving.result(_STOP_LIMIT_S)

    def cancel(self) -> None:
        """Stop the worker, and cancel running handlers: their records are released. Raises what has stopped it."""
        for _ in range(2):
            self._call(self.worker.stop)
        self._serving.result(_STOP_LIMIT_S)

    def end(self) -> None:
        """What happens at the end of the `with` block: `cancel`, and then there is no thread to call."""
        try:
            self.cancel()
        finally:
            self._has_ended = True

    def _counts(self) -> dict[str, Counts]:
        return {runner.route.name: replace(runner.counts) for runner in self._runners}

    def _call(self, function: Callable[[], T]) -> T:
        """Call a function in the worker's thread."""
        if self._has_ended:
            raise KshareError("the worker has ended: call this within the `with` block of run_worker")
        return self._portal.call(function)

    def _require_running(self) -> None:
        if self._serving.done():
            self._serving.result()
            raise KshareError("the worker was stopped")

    def _settle(self, rounds: int) -> None:
        """Let the worker and the broker take turns, until nothing changes any more."""
        before, same = None, 0
        for _ in range(_MAX_ROUNDS):
            self._require_running()
            now = self._portal.call(self._state)
            self.broker.call(lambda: None)
            same = same + 1 if now == before else 0
            before = now
            if same == rounds:
                return

    async def _state(self) -> object:
        for _ in range(3):
            await checkpoint()
        return [
            (
                replace(runner.counts),
                runner.queue.held,
                runner.queue.copies,
                runner.queue.has_ready,
                runner.running,
            )
            for runner in self.worker.runners
        ]

    def _until_due(self) -> float:
        """Seconds until the next record is due."""
        now = self._time.now()
        dues = [runner.queue.next_due for runner in self.worker.runners]
        return max(0.001, min((due - now for due in dues if due is not None), default=_LONGEST_STEP_S))

    def _longest_step(self) -> float:
        groups = {runner.route.group for runner in self.worker.runners}
        configs = self.broker.state.configs
        locks = self.broker.call(
            lambda: [configs.group_number(group, "share.record.lock.duration.ms") for group in groups]
        )
        return min([_LONGEST_STEP_S, *(lock / 1000 / _STEPS_PER_LOCK for lock in locks)])

    def _unsettled(self) -> dict[str, int]:
        """Topic partition → how many of its records aren't settled by a group; only those that have any."""
        topics = self._call(
            lambda: {
                *(
                    (runner.route.group, topic)
                    for runner in self.worker.runners
                    for topic in runner.route.topics
                ),
                *(
                    (retry_group(runner.route.group), topic)
                    for runner in self.worker.runners
                    for tier in runner.route.retry_topics()
                    for topic in tier
                ),
            }
        )

        def look() -> dict[str, int]:
            state = self.broker.state
            starts = {share.key: share.shared.start_offset for share in state.shares.loaded()}
            found = {}
            for group, name in sorted(topics):
                topic = state.cluster.topics.get(name)
                for partition in topic.partitions if topic is not None else ():
                    start = starts.get(
                        (group, partition.topic.id, partition.index), partition.log.start_offset
                    )
                    if partition.log.end_offset > start:
                        found[f"{name}[{partition.index}] in group {group}"] = (
                            partition.log.end_offset - start
                        )
            return found

        return self.broker.call(look)

    def _situation(self) -> str:
        unsettled = [f"{count} in {where}" for where, count in self._unsettled().items()]
        parts = [
            f"records between the first that isn't settled and the last: {', '.join(unsettled) or 'none'}"
        ]
        for name, counts in self.counts.items():
            parts.append(f"handler {name}: {counts}")
        waiting = self._call(
            lambda: sum(runner.queue.held + runner.queue.copies for runner in self.worker.runners)
        )
        if waiting:
            parts.append(
                f"{waiting} wait for their next attempt, the first for {self._call(self._until_due):.1f} s: advance "
                "the clock"
            )
        return "; ".join(parts)


class _Time:
    """The worker's clocks: that of its event loop, and the time of day."""

    def __init__(self, backend: Backend) -> None:
        self._ahead_s = 0.0
        self.backend_options: dict[str, Any]
        if backend == "trio":
            from trio.testing import MockClock

            clock = MockClock(rate=1.0)
            self.backend_options = {"clock": clock}
            self._jump_loop: Callable[[float], None] = clock.jump
        else:
            self.backend_options = {"loop_factory": self._new_loop}
            self._jump_loop = lambda seconds: None

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        """There is no other way to set asyncio's clock: all its timers use `time`."""
        import asyncio

        loop = asyncio.new_event_loop()
        loop.time = lambda: time.monotonic() + self._ahead_s  # type: ignore[method-assign]
        return loop

    def jump(self, seconds: float) -> None:
        """In the thread of the event loop, which then looks at its timers."""
        self._ahead_s += seconds
        self._jump_loop(seconds)

    @staticmethod
    def now() -> float:
        """In the thread of the event loop."""
        return anyio.current_time()

    def wall_clock(self) -> float:
        return time.time() + self._ahead_s


@contextmanager
def run_worker(
    worker: Worker, *, backend: Backend = "asyncio", **options: Unpack[BrokerOptions]
) -> Iterator[RunningWorker]:
    """Run a worker on an embedded broker of its own, with these options, until the end of the `with` block.

    The worker's own connection isn't used. All topics that its handlers name are created, and its groups start at the
    beginning of topics. At the end, handlers that are still running are cancelled.
    """
    if options.get("clock") is not None:
        raise ConfigError("run_worker has a clock of its own: use advance")
    clock, worker_time = JumpingClock(), _Time(backend)
    connected_to, connection = worker.bootstrap_servers, worker.connection
    with Broker(**(options | {"clock": clock})) as broker:
        for route in worker.routes():
            broker.set_group_config(route.group, {"share.auto.offset.reset": "earliest"})
            dead_letters = route.options.dead_letters
            for topic in [*route.topics, *([dead_letters] if isinstance(dead_letters, str) else [])]:
                if topic not in broker.call(lambda: [*broker.state.cluster.topics]):
                    broker.create_topic(topic)
        worker.bootstrap_servers, worker.connection = broker.bootstrap, {}
        try:
            with start_blocking_portal(backend, worker_time.backend_options, name="kshare worker") as portal:
                running = RunningWorker(worker, broker, clock, worker_time, portal)
                running.start()
                try:
                    yield running
                finally:
                    running.end()
        finally:
            worker.bootstrap_servers, worker.connection = connected_to, connection
