"""One run of a worker: from connecting to disconnecting.

start up: connect → read the groups' limits → create retry topics → hooks → handlers
stop:     acquire nothing more → finish what is in hand, within `drain_timeout` → hooks → disconnect
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial

import anyio
from anyio.abc import TaskStatus

from kshare.admin.config import admin_settings
from kshare.admin.routing import Router
from kshare.admin.topics import list_topics
from kshare.errors import KshareError
from kshare.net.pool import Pool
from kshare.producer.writer import RecordWriter
from kshare.worker.app import Hook, require_separate_topics
from kshare.worker.functions.user_functions import is_failure, require_ended
from kshare.worker.handlers.routes import Route
from kshare.worker.rules.limits import ShareLimits
from kshare.worker.rules.retry_topics import default_retry_topics
from kshare.worker.run.group_limits import look_for_changes, read_group_limits, watch_limits
from kshare.worker.run.runner import HandlerRunner, RunSettings
from kshare.worker.run.windows import watch_windows
from kshare.worker.settle.outbound import WRITER_SETTINGS, Outbound
from kshare.worker.settle.retry_group import prepare_retry_group
from kshare.worker.watch.announcement import AnnouncedHandler, Announcement, AnnounceOptions, announced_url
from kshare.worker.watch.announcing import ANNOUNCED_EVERY_S, announced
from kshare.worker.watch.process_identity import identify_process

log = logging.getLogger("kshare.worker")

_LOOK_FOR_TOPICS_S = 10.0
"""How often topics are compared with the patterns of handlers."""
_LIMITS_S = 1.0
"""How long a look at a group's limits may take while its handler stops."""
_SHUTDOWN_S = 10.0
"""How long shutdown hooks may take in all, at least."""


class Serving:
    """One run of a worker. `routes` are its handlers."""

    def __init__(
        self,
        routes: list[Route],
        options: RunSettings,
        *,
        startup_hooks: list[Hook],
        shutdown_hooks: list[Hook],
        announce: AnnounceOptions | None,
    ) -> None:
        self.runners: list[HandlerRunner] = []
        self.stopping = anyio.Event()
        self.scope = anyio.CancelScope()
        self.is_started = False
        self._begins_handling = False
        self._starting: _HandlerTask | None = None
        self.http_port: int | None = None
        self._left_out: set[str] = set()
        """Retry topics whose names match patterns."""
        self._routes = routes
        self._options = options
        self._net = admin_settings(options.bootstrap_servers, options.connection)
        self.identity = identify_process(self._net.client_id)
        self._announce = announce
        self._startup_hooks = startup_hooks
        self._shutdown_hooks = shutdown_hooks

    @property
    def _http_described(self) -> str:
        return "" if self.http_port is None else f"; HTTP on port {self.http_port}"

    def stop(self) -> None:
        """The first time, handlers that run may finish; what is still starting is cancelled."""
        if self.stopping.is_set() or not self._begins_handling:
            for runner in self.runners:
                runner.abandon()
            self.scope.cancel()
        elif self._starting is not None:
            self._starting.cancel_start()
        self.stopping.set()

    async def run(self, task_status: TaskStatus[None]) -> None:
        async with Pool(self._net) as pool:
            await pool.bootstrap()
            router = Router(pool, self._net.request_timeout)
            async with RecordWriter(router, WRITER_SETTINGS) as writer, self._announced(router, writer):
                outbound = Outbound(router, writer)
                limits = {
                    group: await read_group_limits(router, group)
                    for group in {route.group for route in self._routes}
                }
                routes = await self._with_topics(router)
                for group in sorted({other.group for other in routes if other.options.tiers is not None}):
                    await prepare_retry_group(router, group)
                for route in routes:
                    await _require_topics_of_copies(route, routes, outbound)
                has_begun = False
                try:
                    for hook in self._startup_hooks:
                        await _call(hook)
                        has_begun = True
                    has_begun = True
                    await self._run_handlers(routes, router, outbound, limits, task_status)
                finally:
                    if has_begun:  # otherwise there is nothing to shut down
                        with anyio.CancelScope(shield=True):
                            await self._shut_down()

    def _announced(self, router: Router, writer: RecordWriter) -> AbstractAsyncContextManager[None]:
        if self._announce is None or self.http_port is None:
            return nullcontext()
        endpoint = self._announce.http_host, self.http_port
        announcement = Announcement(
            identity=self.identity,
            url=announced_url(self._announce.url, endpoint, self.identity.host),
            handlers=tuple(AnnouncedHandler(route.name, route.group) for route in self._routes),
            interval_s=ANNOUNCED_EVERY_S,
        )
        return announced(router, writer, self._announce.topic, announcement)

    async def _run_handlers(
        self,
        routes: list[Route],
        router: Router,
        outbound: Outbound,
        limits: dict[str, ShareLimits],
        task_status: TaskStatus[None],
    ) -> None:
        look_for = partial(look_for_changes, router, self._on_limits)
        async with anyio.create_task_group() as tasks:
            async with anyio.create_task_group() as handlers:

                async def start(route: Route) -> None:
                    own = limits[route.group]
                    look = partial(look_for, {route.group: own}, longest_s=_LIMITS_S)
                    runner = HandlerRunner(route, self._options, outbound, own, look)
                    task = _HandlerTask(runner, self.stopping)
                    self._starting = task
                    handlers.start_soon(task.run, name=f"kshare worker: {route.name}")
                    await task.started.wait()
                    self._starting = None
                    if not task.has_started:
                        return  # it was stopped before
                    self.runners.append(runner)
                    self._rank()
                    if self.stopping.is_set():
                        runner.stop()

                self._begins_handling = True
                for route in routes:
                    if self.stopping.is_set():
                        break
                    if route.topics:
                        await start(route)
                    else:
                        log.warning("handler %s: no topic matches its patterns yet", route.name)
                if any(route.patterns for route in routes):
                    follow = partial(self._look_for_topics, router, outbound, start)
                    tasks.start_soon(follow, name="kshare worker: look for topics")
                tasks.start_soon(watch_limits, partial(look_for, limits), name="kshare worker: watch limits")
                windows = partial(watch_windows, router, self.runners)
                tasks.start_soon(windows, name="kshare worker: watch windows")
                self.is_started = True
                task_status.started()
                log.info("running: %s%s", ", ".join(map(_described, routes)), self._http_described)
                await self.stopping.wait()
                for runner in self.runners:
                    runner.stop()
            tasks.cancel_scope.cancel()

    def _on_limits(self, group: str) -> None:
        for runner in self.runners:
            if runner.route.group == group:
                runner.on_limits()

    def _rank(self) -> None:
        """Tell the runners which of them have a higher priority."""
        for runner in self.runners:
            rank = runner.route.options.priority
            runner.give_way_to([other for other in self.runners if other.route.options.priority > rank])

    async def _with_topics(self, router: Router) -> list[Route]:
        """The routes, with the topics that match their patterns. Retry topics don't, whichever group has written them:
        the records of their source match already."""
        if not any(route.patterns for route in self._routes):
            return self._routes
        names = [topic.topic for topic in await list_topics(router, with_internal=False)]
        of_copies = default_retry_topics(names)
        for route in self._routes:
            of_copies.update(*route.matching(names).retry_topics())
        routes = [route.matching(name for name in names if name not in of_copies) for route in self._routes]
        self._log_left_out(of_copies)
        require_separate_topics(routes)
        return routes

    def _log_left_out(self, of_copies: set[str]) -> None:
        """Once for each topic, because somebody may have chosen such a name for other records."""
        found = {
            name for name in of_copies for route in self._routes if name in route.matching([name]).topics
        }.difference(*(route.topics for route in self._routes))
        if new := sorted(found - self._left_out):
            log.info(
                "patterns don't match retry topics, unless they are also named: leaving out %s",
                ", ".join(new),
            )
        self._left_out |= found

    async def _look_for_topics(
        self, router: Router, outbound: Outbound, start: Callable[[Route], Awaitable[None]]
    ) -> None:
        while not self.stopping.is_set():
            await anyio.sleep(_LOOK_FOR_TOPICS_S)
            try:
                for route in await self._with_topics(router):
                    await self._follow(route, outbound, start)
            except KshareError as problem:
                log.warning("can't subscribe to new topics: %s", problem)

    async def _follow(
        self, route: Route, outbound: Outbound, start: Callable[[Route], Awaitable[None]]
    ) -> None:
        """Let a handler get the topics that match its patterns now."""
        runner = next((known for known in self.runners if known.route.name == route.name), None)
        if self.stopping.is_set() or not route.topics or (runner and runner.route.topics == route.topics):
            return
        await _require_topics_of_copies(route, self._routes, outbound)
        if runner is None:
            await start(route)
        else:
            runner.subscribe(route)

    async def _shut_down(self) -> None:
        """Call all hooks, whatever they raise. Raises the first exception."""
        errors: list[BaseException] = []
        limit = max(self._options.drain_timeout, _SHUTDOWN_S)
        with anyio.move_on_after(limit) as scope:
            for hook in self._shutdown_hooks:
                try:
                    await _call(hook)
                except BaseException as error:
                    if not is_failure(error):
                        raise
                    if errors:
                        log.error("another shutdown hook failed", exc_info=error)
                    errors.append(error)
        if scope.cancelled_caught:
            log.error("shutdown hooks took longer than %g s, and were cancelled", limit)
        if errors:
            raise errors[0]


def _described(route: Route) -> str:
    return f"{route.name} ({', '.join(route.topics)}; group {route.group})"


class _HandlerTask:
    """Runs a handler. Until it has started, it can be cancelled without cancelling anything that it processes."""

    def __init__(self, runner: HandlerRunner, stopping: anyio.Event) -> None:
        self.has_started = False
        self.started = anyio.Event()
        """Set when it runs, and when it has ended before."""
        self._runner = runner
        self._stopping = stopping
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        try:
            with self._scope:
                await self._runner.run(on_started=self._on_started)
        finally:
            self.started.set()
        if not self._stopping.is_set():
            raise KshareError(
                f"handler {self._runner.route.name} has ended, although the worker wasn't stopped"
            )

    def _on_started(self) -> None:
        self.has_started = True
        self.started.set()

    def cancel_start(self) -> None:
        if not self.has_started:
            self._scope.cancel()


async def _call(hook: Hook) -> None:
    result: object = hook()
    if inspect.isawaitable(result):
        result = await result
    require_ended(hook, result, "hook")


async def _require_topics_of_copies(route: Route, routes: Iterable[Route], outbound: Outbound) -> None:
    """`routes` are all of the worker: several may have the same topic for dead letters."""
    for topic in [topic for tier in route.retry_topics() for topic in tier]:
        await outbound.require_topic(topic, sources=route.topics)
    if isinstance(route.options.dead_letters, str):
        dead_letters = route.options.dead_letters
        sharing = [other for other in routes if other.options.dead_letters == dead_letters]
        sources = {topic for other in (route, *sharing) for topic in other.topics}
        await outbound.require_topic(dead_letters, sources=sources, keeps_dead_letters=True)
