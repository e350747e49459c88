"""Runs `kshare trace`: a proxy whose traffic goes to the screen, and optionally to a capture.

Ctrl-C ends it with a summary, a closed pipe without one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import time
from typing import BinaryIO

import anyio
from anyio.abc import TaskGroup

from kshare.cli.cluster.connection import Cluster
from kshare.cli.terminal.failure import Failure, Misuse
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.standard_error import say
from kshare.cli.terminal.stop_signals import StopSignals, stop_signals
from kshare.cli.terminal.traffic.view import TrafficOptions, TrafficView
from kshare.cli.trace.capture_writer import TrafficCapture
from kshare.errors import ConfigError, ConnectionLost, KshareError, RequestTimedOut
from kshare.net.addresses import Address, format_address, parse_addresses
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.trace import Proxy
from kshare.trace.relay import Endpoint
from kshare.traffic import Connection, Exchange, ExchangeDecoder, TrafficAnalyzer


def run_trace(cluster: Cluster, listen: str, write: Path | None, show: TrafficOptions) -> None:
    settings = cluster.settings
    where = _parse_listen(listen)
    with ExitStack() as files:
        capture = TrafficCapture(files.enter_context(_new_file(write))) if write else None
        signals = files.enter_context(stop_signals())
        with cluster.explaining():
            anyio.run(_trace, TrafficView(Screen(), show), capture, settings, where, signals)


def _new_file(path: Path) -> BinaryIO:
    """For this user alone: it has everything that clients send but for passwords. A pipe may be there already."""
    is_pipe = path.exists() and not path.is_file()
    flags = os.O_WRONLY if is_pipe else os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.fdopen(os.open(path, flags, 0o600), "wb")
    except FileExistsError:
        raise Failure(f"{path} exists already: name another file with --write, or remove it") from None


def _parse_listen(text: str) -> Address:
    """Parse HOST:PORT. Port 0 means any free port."""
    host, _, port = text.rpartition(":")
    is_any = port == "0"
    try:
        addresses = parse_addresses(f"{host}:1" if is_any else text)
    except ConfigError as error:
        raise Misuse(f"--listen: {error}") from error
    if len(addresses) != 1:
        raise Misuse("--listen takes one address")
    return (addresses[0][0], 0) if is_any else addresses[0]


async def _trace(
    view: TrafficView,
    capture: TrafficCapture | None,
    settings: NetSettings,
    listen: Address,
    signals: StopSignals,
) -> None:
    tracer = Tracer(view, capture)
    await tracer.run(settings, listen, signals)
    if tracer.failure:
        raise tracer.failure


class Tracer:
    """Shows, checks and records what the proxy observes. The first failure in that ends the trace."""

    def __init__(self, view: TrafficView, capture: TrafficCapture | None) -> None:
        self.failure: Exception | None = None
        self.capture = capture
        self._view = view
        self._watch = TrafficAnalyzer()
        self._connections = 0
        self._scope = anyio.CancelScope()

    async def run(self, settings: NetSettings, listen: Address, signals: StopSignals) -> None:
        async with anyio.create_task_group() as tasks:
            with self._scope:
                tasks.start_soon(signals.call, self._scope.cancel)
                tasks.start_soon(self._check_access, settings)
                await self._start(tasks, Proxy(settings, listen, self), settings)
                await anyio.sleep_forever()
            tasks.cancel_scope.cancel()
        if self.failure is None:
            self.attempt(self._end)

    async def _check_access(self, settings: NetSettings) -> None:
        """Report a refused login at once, not at the first client. A cluster that can't be reached may start later."""
        try:
            async with Pool(settings) as pool:
                await pool.connection(None, timeout=settings.connect_timeout)
        except (ConnectionLost, RequestTimedOut) as failure:
            say(f"{failure}; waiting for clients nevertheless")
        except KshareError as failure:
            self.failure = failure
            self._scope.cancel()

    async def _start(self, tasks: TaskGroup, proxy: Proxy, settings: NetSettings) -> None:
        try:
            address = await tasks.start(proxy.run)
        except KshareError as failure:
            self.failure = failure
            self._scope.cancel()
            return
        cluster = ",".join(map(format_address, settings.bootstrap))
        self.attempt(partial(self._view.begin, format_address(address), cluster))

    def opened(self, client: Endpoint, server: Endpoint, name: str, time: float) -> TracedConnection:
        self._connections += 1
        connection = Connection(self._connections, format_address(client), name)
        return TracedConnection(self, connection, client, server, time)

    def note(self, text: str) -> None:
        self.attempt(partial(self._view.note, text))

    def see(self, exchanges: list[Exchange]) -> None:
        for exchange in exchanges:
            self._view.show(self._watch.see(exchange))
        if exchanges:
            self._view.flush()

    def closed(self, connection: Connection, time: float) -> None:
        self._view.findings(self._watch.connection_closed(connection, time))
        self._view.flush()

    def attempt(self, work: Callable[[], None]) -> None:
        """Errors must not reach the proxy: the first is stored, and ends the trace."""
        if self.failure is None:
            try:
                work()
            except Exception as failure:
                self.failure = failure
                self._scope.cancel()

    def _end(self) -> None:
        self._view.findings(self._watch.finish(time()))
        self._view.summary(self._watch.summary)
        self._view.unnamed()


class TracedConnection:
    """One connection through the proxy: its traffic is decoded, shown, and written to the capture."""

    def __init__(
        self, tracer: Tracer, connection: Connection, client: Endpoint, server: Endpoint, time: float
    ) -> None:
        self._tracer = tracer
        self._connection = connection
        capture = tracer.capture
        self._written = capture.connect(client, server, time) if capture else None
        self._decoder = ExchangeDecoder(connection, on_frame=self._written.frame if self._written else None)

    def client_sends(self, data: bytes | memoryview, time: float) -> None:
        self._tracer.attempt(lambda: self._tracer.see(self._decoder.client_sends(data, time)))

    def server_sends(self, data: bytes | memoryview, time: float) -> None:
        self._tracer.attempt(lambda: self._tracer.see(self._decoder.server_sends(data, time)))

    def closed(self, time: float, *, by_client: bool) -> None:
        self._tracer.attempt(lambda: self._end(time, by_client))

    def _end(self, time: float, by_client: bool) -> None:
        self._tracer.see(self._decoder.end(time))
        self._tracer.closed(self._connection, time)
        if self._written:
            self._written.close(time, by_client=by_client)
