"""Runs the console until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import uvicorn

from kshare.errors import KshareError
from kshare.net.addresses import format_address
from kshare.summary_log import SummaryLog
from kshare.web.app import make_app
from kshare.web.config import WebConfig
from kshare.web.connections import (
    BACKLOG,
    MOST_CONNECTIONS,
    MOST_OF_ADDRESS,
    ConnectionLimits,
    bounded_protocol,
    most_connections,
)
from kshare.web.console import Console
from kshare.web.watcher import Watcher

log = logging.getLogger("kshare.web")

LoopHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]
_NOT_ACCEPTED = "socket.accept() out of system resource"
"""With these words, asyncio tells of each attempt."""
_CLOSING_S = 1
"""For pages that are being made; those that wait for the cluster end at once."""


def serve(config: WebConfig, on_ready: Callable[[str, Callable[[], None]], None]) -> None:
    """Returns when it was stopped. `on_ready` is called with the console's URL, and a function that stops it.

    A signal handler may call that function.
    """
    with (
        _listen(config) as listening,
        Watcher(config.net, config.interval_s, config.workers) as watcher,
        flood_log() as handler,
    ):
        console = Console(config, watcher)
        server = _Server(
            uvicorn.Config(
                make_app(console),
                http=bounded_protocol(_connection_limits(config)),
                ws="none",
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_graceful_shutdown=_CLOSING_S,
            ),
            console,
            handler,
            lambda: on_ready(f"http://{format_address(listening.getsockname()[:2])}/", server.stop),
        )
        server.run([listening])


def _connection_limits(config: WebConfig) -> ConnectionLimits:
    is_behind_proxy = config.user_header is not None
    most = most_connections(MOST_CONNECTIONS)
    return ConnectionLimits(
        most,
        None if is_behind_proxy else min(MOST_OF_ADDRESS, most // 2),
        has_logins=is_behind_proxy or config.users is not None,
    )


class _Server(uvicorn.Server):
    """Says when it is ready, and ends the event streams of open pages first: otherwise it would wait for them."""

    def __init__(
        self, config: uvicorn.Config, console: Console, handler: LoopHandler, on_ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._console = console
        self._handler = handler
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._handler)
        await super().startup(sockets)
        self._on_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the caller's business. With uvicorn's handlers, a second one would print tracebacks."""
        yield

    def stop(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._console.close()
        await super().shutdown(sockets)


def _listen(config: WebConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((config.host, config.port))
    except OSError as error:
        listening.close()
        raise KshareError(
            f"can't listen on {format_address((config.host, config.port))}: {error.strerror}; "
            "choose another port with --listen"
        ) from error
    return listening


@contextmanager
def flood_log() -> Iterator[LoopHandler]:
    """Logs in sums what clients can cause as often as they like: requests that aren't HTTP, and connections in excess.

    What uvicorn warns of is logged so meanwhile. Yields what handles exceptions of its event loop.
    """
    uvicorn = logging.getLogger("uvicorn.error")
    with closing(SummaryLog(log)) as summary:

        def is_passed_on(record: logging.LogRecord) -> bool:
            if record.levelno != logging.WARNING:
                return True
            summary.event(logging.WARNING, record.getMessage())
            return False

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if context["message"] == _NOT_ACCEPTED:
                summary.event(logging.WARNING, "a connection can't be accepted", context.get("exception", ""))
            else:
                loop.default_exception_handler(context)

        uvicorn.addFilter(is_passed_on)
        try:
            yield handle
        finally:
            uvicorn.removeFilter(is_passed_on)
