"""The connection of a share session to its broker. It isn't shared, because a waiting fetch would delay heartbeats.

The session ends with its connection, so a closed connection is reported even if no request is under way. Decides when
to close the connection: when the broker ends the session, doesn't respond in time, or sends a response that can't be
decoded. Never decides what to send, or whether to repeat a request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kshare.engine.reporter import Reporter
from kshare.errors import ConnectionLost, DecodeError, KshareError, RequestTimedOut
from kshare.net.connection import Connection
from kshare.net.pending import OnResponse, PendingRequest
from kshare.net.pool import Pool
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Request
from kshare.protocol.messages import ShareFetchResponse
from kshare.state.session import INITIAL_EPOCH


class FetchConnection:
    """`open`, `send`, `wait_for_response`, and so on: one request at a time."""

    def __init__(
        self,
        node: int,
        pool: Pool,
        reporter: Reporter,
        name_of: Callable[[bytes], str | None],
        clock: Callable[[], float],
    ) -> None:
        self._node = node
        self._pool = pool
        self._reporter = reporter
        self._name_of = name_of
        self._clock = clock
        self._connection: Connection | None = None
        self._in_use: Connection | None = None
        """The connection on which the last request was sent."""

    @property
    def is_free(self) -> bool:
        """Whether it is open and idle, so that a request is sent at once."""
        return self._connection is not None and self._connection.is_free

    async def open(self, on_closed: Callable[[str], None], timeout: float) -> None:
        """Open it, unless it is open. `on_closed` is called with the reason when it closes unexpectedly."""
        if self._connection is None or not self._connection.is_open:
            self._connection = await self._pool.connection(self._node, purpose="fetch", timeout=timeout)
            self._connection.on_closed(partial(self._on_closed, self._connection, on_closed))

    def send(self, request: Request[Any], on_response: OnResponse) -> PendingRequest:
        """Send a request, then the request that `on_response` returns for each response, until it returns None."""
        assert self._connection is not None, "it was opened"
        self._in_use = self._connection
        return self._in_use.send(request, on_response=partial(self._on_response, self._in_use, on_response))

    async def wait_for_response(self, pending: PendingRequest, timeout: float) -> None:
        """Wait for the last response. `timeout` applies to each of them."""
        connection = self._in_use
        assert connection is not None, "something was sent"
        try:
            await connection.wait_for_response(pending, timeout=timeout)
        except KshareError as error:
            if not pending.has_response:
                self._reporter.responded(pending.request, self._node, self._clock() - pending.since, error)
            if isinstance(error, RequestTimedOut | DecodeError):
                # The broker may still be processing the request, and the next one would queue behind it. Or
                # the response was unreadable: what it acquired stays locked until the connection is closed.
                self._connection = None
                await connection.aclose()
            raise
        if not connection.is_open:
            await connection.wait_closed()

    def _on_response(
        self, connection: Connection, on_response: OnResponse, pending: PendingRequest, response: Any
    ) -> Request[Any] | None:
        if self._reporter.is_on or self._reporter.metrics is not None:
            self._report(pending, response)
        if response.error_code and not _is_harmless(pending.request, response.error_code):
            # A new session will be opened, but what this one acquired, perhaps in this response, stays locked until its
            # connection is closed. The session already knows from the response, so it isn't notified.
            self.close("its session is over")
        return on_response(pending, response)

    def close(self, reason: str) -> None:
        """Close it, after the session has ended. `on_closed` isn't called."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.end(ConnectionLost(reason), is_ours=True)

    def _report(self, pending: PendingRequest, response: Any) -> None:
        self._reporter.responded(pending.request, self._node, self._clock() - pending.since, response)
        if isinstance(response, ShareFetchResponse):
            self._reporter.fetched(self._node, response, self._name_of)
        else:
            self._reporter.acknowledged(response, self._name_of)

    def _on_closed(self, connection: Connection, report: Callable[[str], None], error: KshareError) -> None:
        if self._connection is connection:
            report(str(error))


def _is_harmless(request: Request[Any], error: int) -> bool:
    """No session was opened, so nothing is locked through this connection: it can be used for the next attempt."""
    opened = getattr(request, "share_session_epoch", None) == INITIAL_EPOCH
    return opened and error == ErrorCode.SHARE_SESSION_LIMIT_REACHED
