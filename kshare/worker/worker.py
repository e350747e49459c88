"""Worker: runs handlers until it is stopped."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import anyio
from anyio.abc import TaskStatus

from kshare.admin.config import admin_settings
from kshare.client.given_options import in_a_dictionary
from kshare.errors import ConfigError, KshareError
from kshare.http.endpoint import http_endpoint, parse_listen_address
from kshare.options.checks import require_backend, require_number
from kshare.options.mistakes import Mistakes
from kshare.surroundings import wall_time
from kshare.worker.app import FunctionT, Handlers, Topic, routes_of, with_options
from kshare.worker.config import configure_worker
from kshare.worker.handlers.options import LONGEST_LEASE_S, HandlerOptions, check_connection_names, checkable
from kshare.worker.handlers.routes import Route
from kshare.worker.run.runner import HandlerRunner, RunSettings
from kshare.worker.serving import Serving
from kshare.worker.signals import SignalCount, on_stop_signals
from kshare.worker.threads import CallInLoop, LoopOfWorker, WorkerThreads, caller_in_this_loop
from kshare.worker.trial import Sample, Trial, route_for, sample_record, try_handler
from kshare.worker.watch.announcement import OWN_URL, AnnounceOptions, check_announce, require_endpoint
from kshare.worker.watch.health import WorkerHealth, WorkerState
from kshare.worker.watch.health_pages import HealthPages
from kshare.worker.watch.observer import WorkerObserver
from kshare.worker.watch.status import ProcessStatus
from kshare.worker.watch.watching import Watch

if TYPE_CHECKING:
    from kshare.worker.handlers.option_types import HandlerSettings, WorkerOptions

log = logging.getLogger("kshare.worker")


class Worker(Handlers):
    """Runs handlers for the records of share groups. Options are those of handlers, as defaults for all of them, and
    those of `kshare.ClientOptions`, in our names or in Kafka's."""

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        drain_timeout: float = 30.0,
        http: str | None = None,
        announce: str | None = None,
        announce_url: str = OWN_URL,
        **options: Unpack[WorkerOptions],
    ) -> None:
        """`bootstrap_servers`: the brokers to connect to first, as "host:port".

        `drain_timeout`: how many seconds running handlers get when the worker is stopped. After that they are
        cancelled, and their records released.

        `http`: an address for the HTTP endpoint, which serves /live, /ready, /status and /metrics: "127.0.0.1:8080", or
        "[::]:0" for all interfaces and any free port. It has neither encryption nor logins.

        `announce`: a topic in which the worker announces where its HTTP endpoint is, so that consoles find it, such as
        "kshare-workers". It is created if it doesn't exist.

        `announce_url`: the URL at which others reach the HTTP endpoint, if it isn't the endpoint's own. "{host}" and
        "{port}" stand for its own host and port, or the name of the host if it listens on all interfaces."""
        if isinstance(bootstrap_servers, Mapping):
            raise in_a_dictionary("Worker", "options")
        mistakes = Mistakes()
        defaults, connection = _split(options)
        with mistakes:
            check_connection_names(connection)
        with mistakes:
            super().__init__(**checkable(defaults, connection))
        with mistakes:
            self.drain_timeout = require_number("drain_timeout", drain_timeout, 0, LONGEST_LEASE_S)
        if http is not None:
            with mistakes:
                parse_listen_address(http)  # refuses what isn't an address
        with mistakes:
            check_announce(announce, announce_url)
        mistakes.raise_all()
        self.bootstrap_servers = bootstrap_servers
        self.connection = connection
        self.http = http
        self.announce = announce
        self.announce_url = announce_url
        self._observers: list[WorkerObserver] = []
        self.overrides: dict[str, dict[str, Any]] = {}
        """Options of handlers from a file, by handler. They take precedence over those in code."""
        self.stops_per_signal: Callable[[], int] = lambda: 1
        """Asked about each signal that `run` receives: how often to call `stop`. A supervisor may know better."""
        self._serving: Serving | None = None
        self._loop: LoopOfWorker | None = None
        """That of the run."""
        self._threads: WorkerThreads | None = None
        """Further threads that run copies of it."""

    def include(self, handlers: Handlers) -> None:
        """Add the handlers of another part of the application, with its options, middleware and hooks."""
        self._require_stopped("include handlers")
        super().include(handlers)

    def _declare(
        self, topics: tuple[Topic, ...], options: HandlerSettings, *, is_batch: bool
    ) -> Callable[[FunctionT], FunctionT]:
        self._require_stopped("declare handlers")
        return super()._declare(topics, options, is_batch=is_batch)

    def _require_stopped(self, action: str) -> None:
        """What is added while it runs would never be called."""
        if self._serving is not None:
            raise KshareError(f"the worker is running: {action} before it starts")

    def configure(self, file: str | Path | None = None, environ: Mapping[str, str] | None = None) -> None:
        """Apply a TOML file, and then the environment variables that begin with KSHARE_WORKER_.

        Call it when all handlers are declared, before the worker runs. `environ` is os.environ by default.
        """
        configure_worker(self, file, os.environ if environ is None else environ)

    def run(
        self,
        *,
        backend: Literal["asyncio", "trio"] = "asyncio",
        threads: int = 1,
        on_running: Callable[[], None] | None = None,
    ) -> None:
        """Run the worker in an event loop of its own, until SIGINT or SIGTERM. A second signal ends it at once:
        handlers are cancelled, and their records released. If a handler continues all the same, a signal that comes
        five seconds later ends the process.

        `threads`: for Pythons without a GIL, how many threads run it, each with an event loop and members of its own.
        Hooks are called in each of them. `on_running` is called when all handlers of the first one are running.
        """
        require_backend(backend)
        if type(threads) is not int or not 1 <= threads <= 1_000:
            raise ConfigError(f"threads must be a whole number from 1 to 1,000, not {threads!r:.80}")
        self._runnable_routes()  # what is wrong is said without the frames of an event loop
        loop: list[CallInLoop] = []
        received: list[signal.Signals] = []
        signals = SignalCount()

        def on_signal(which: signal.Signals) -> None:
            # It may have interrupted anything, even the logging of a line, so it must not log itself.
            stops = self.stops_per_signal()
            signals.note(which, stops)
            for _ in range(stops):
                received.append(which)
                call_in_loop(stop)
                others.stop()  # not in the loop, which may have ended before those of the other threads

        def call_in_loop(function: Callable[[], None]) -> None:
            for call in loop:
                with suppress(RuntimeError):  # the loop has ended meanwhile
                    call(function)

        def stop() -> None:
            if signals.count <= 2:
                log.info("%s: stopping", received[-1].name)
            self.stop()

        def started() -> None:
            if on_running is not None:
                on_running()
            others.start()

        async def main() -> None:
            loop.append(caller_in_this_loop())
            if received:  # before the loop was running
                return
            try:
                await self.serve(task_status=_CallBack(started))
            finally:
                loop.clear()

        others = WorkerThreads(self, threads - 1, backend, on_failure=lambda: call_in_loop(self.stop))
        self._threads = others
        with on_stop_signals(on_signal):
            try:
                anyio.run(main, backend=backend)
            finally:
                others.end()
                self._threads = None

    async def serve(
        self,
        *,
        wall_clock: Callable[[], float] = wall_time,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run the worker in the running event loop, until `stop` is called.

        With `await tasks.start(worker.serve)`, `start` returns when all handlers are running. `wall_clock` is the time
        of day, which tests may control.
        """
        if self._serving is not None:
            raise KshareError("the worker is running already")
        serving = Serving(
            self._runnable_routes(),
            RunSettings(
                self.bootstrap_servers,
                self.connection,
                self.drain_timeout,
                wall_clock,
                tuple(self._observers),
            ),
            startup_hooks=self.startup_hooks(),
            shutdown_hooks=self.shutdown_hooks(),
            announce=self._announce_options(),
        )
        self._serving = serving
        self._loop = LoopOfWorker()
        watch = Watch(self._observers)
        ends: list[Callable[[], None]] = []
        try:
            for observer in self._observers:
                end = watch.tell(observer.on_serve, self.health)
                if end is not None:
                    ends.append(end)
            with serving.scope:
                async with self._endpoint(serving) as serving.http_port:
                    await serving.run(task_status)
            if not serving.is_started:
                task_status.started()  # it was stopped before
        except BaseExceptionGroup as group:
            raise _first_of(group) from None
        finally:
            self._serving = self._loop = None
            for end in reversed(ends):
                watch.tell(end)

    def _runnable_routes(self) -> list[Route]:
        """Raises ConfigError if the worker can't run with its options."""
        mistakes = Mistakes()
        with mistakes:
            require_endpoint(self.announce, self.http)
        with mistakes:
            admin_settings(self.bootstrap_servers, self.connection)
        with mistakes:
            routes = self.routes()
            if not routes:
                raise ConfigError(
                    'the worker has no handlers: decorate functions with @worker.handler("orders")'
                )
        mistakes.raise_all()
        return routes

    async def test(self, record: Sample, handler: str | None = None) -> Trial:
        """Run a handler for a record, or for a record with this value, without brokers, and return the outcome.

        The handler is the one with this name, or that of the record's topic. Its middleware, decoding, options and
        policies apply, as in a running worker. Startup hooks don't run. Without an event loop: `anyio.run(worker.test,
        record)`.
        """
        sample = sample_record(record)
        [trial] = await try_handler(route_for(self.routes(), sample, handler, is_batch=False), [sample])
        return trial

    async def test_batch(self, records: Sequence[Sample], handler: str | None = None) -> list[Trial]:
        """`test` for a batch handler, which gets all records at once."""
        samples = [sample_record(record) for record in records]
        if not samples:
            raise ConfigError("a batch needs at least one record")
        return await try_handler(route_for(self.routes(), samples[0], handler, is_batch=True), samples)

    def stop(self) -> None:
        """Stop: acquire nothing more, finish the acquired records, end. When called again, or while the worker is still
        starting, cancel everything at once.

        Call it in the thread of the event loop.
        """
        self._in_own_loop(self._stop)

    def _stop(self) -> None:
        if self._serving is not None:
            self._serving.stop()

    def _in_own_loop(self, function: Callable[[], None]) -> None:
        """Handlers of all threads have the same `worker`, and call it in theirs."""
        if self._loop is None:
            function()
        else:
            self._loop.call(function)

    def pause(self, name: str, seconds: float) -> None:
        """Let the handlers of a topic, or the handler with this name, acquire and start nothing for some time.

        Running calls continue. If it is already paused, the later end counts; 0 seconds end the pause. Call it in the
        thread of the event loop; if there are several (`threads`), in any of them, for all.
        """
        require_number("seconds", seconds, 0, LONGEST_LEASE_S)
        workers = [self, *(self._threads.workers if self._threads is not None else ())]
        for worker in workers:
            worker._in_own_loop(partial(worker._pause_own, name, seconds))
        if not any(worker._runners_of(name) for worker in workers):
            known = "; ".join(
                f"{runner.route.name} ({', '.join(runner.route.topics)})" for runner in self.runners
            )
            hint = f"there are: {known}" if known else "the worker isn't running"
            raise KshareError(f"there is no topic or handler {name} to pause; {hint}")

    def _pause_own(self, name: str, seconds: float) -> None:
        for runner in self._runners_of(name):
            runner.pause(seconds)

    def _runners_of(self, name: str) -> list[HandlerRunner]:
        """Those of a topic, or of the handler with this name."""
        return [runner for runner in self.runners if name in (runner.route.name, *runner.route.topics)]

    def observe(self, observer: WorkerObserver) -> None:
        """Let an observer know what happens, from the next start of the worker on."""
        if not isinstance(observer, WorkerObserver):
            raise ConfigError(f"an observer must be an instance of WorkerObserver, not {observer!r:.80}")
        self._observers.append(observer)

    def health(self) -> WorkerHealth:
        """Whether it runs, whether it is ready, and what each handler does."""
        serving = self._serving
        if serving is None:
            return WorkerHealth(WorkerState.STOPPED)
        handlers = tuple(runner.health() for runner in serving.runners)
        if serving.stopping.is_set():
            return WorkerHealth(WorkerState.DRAINING, handlers)
        return WorkerHealth(WorkerState.RUNNING if serving.is_started else WorkerState.STARTING, handlers)

    @property
    def http_port(self) -> int | None:
        """The port of the HTTP endpoint, while the worker runs."""
        return None if self._serving is None else self._serving.http_port

    def _announce_options(self) -> AnnounceOptions | None:
        if self.announce is None or self.http is None:
            return None
        host, _ = parse_listen_address(self.http)
        return AnnounceOptions(self.announce, self.announce_url, host)

    def _endpoint(self, serving: Serving) -> AbstractAsyncContextManager[int | None]:
        """The HTTP endpoint, which runs before, during and after everything else."""
        if self.http is None:
            return nullcontext()
        pages = HealthPages(self.health, lambda: self._status(serving), self._observers)
        return http_endpoint(parse_listen_address(self.http), pages)

    def _status(self, serving: Serving) -> ProcessStatus:
        health = self.health()
        handlers = tuple(runner.status() for runner in serving.runners)
        return ProcessStatus(
            identity=serving.identity, state=health.state, reason=health.reason, handlers=handlers
        )

    @property
    def runners(self) -> list[HandlerRunner]:
        """What is running, one for each handler."""
        return [] if self._serving is None else self._serving.runners

    @property
    def is_stopping(self) -> bool:
        return self._serving is not None and self._serving.stopping.is_set()

    def routes(self) -> list[Route]:
        """The handlers with their options, checked."""
        return routes_of(with_options(self.resolved(), self.overrides))


class _CallBack(TaskStatus[None]):
    """Calls a function when a task has started."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act

    def started(self, value: None = None) -> None:
        self._act()


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended a worker. Further ones are logged."""
    found = _leaves(group)
    first, *others = [error for error in found if isinstance(error, Exception)] or found
    for other in others:
        log.error("another error that ended the worker", exc_info=other)
    return first


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for exception in group.exceptions:
        leaves += _leaves(exception) if isinstance(exception, BaseExceptionGroup) else [exception]
    return leaves


def _split(options: Mapping[str, Any]) -> tuple[HandlerSettings, dict[str, Any]]:
    """The defaults of handlers, and how to connect."""
    names = HandlerOptions.__dataclass_fields__
    defaults: Any = {name: value for name, value in options.items() if name in names}
    connection = {name: value for name, value in options.items() if name not in names}
    return defaults, connection
