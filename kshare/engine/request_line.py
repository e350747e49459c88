"""How a share session reaches its broker: on a connection of its own, for a fetch that waits would hold up heartbeats.

The session lives and dies with that connection, so its end is told even while nothing is asked. Decides when to hang
up: when the broker says that the session is over, owes an answer for too long, or answers with what can't be decoded.
Never what is said, or again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from kshare.engine.reporter import Reporter
from kshare.errors import ConnectionLost, DecodeError, KshareError, RequestTimedOut
from kshare.net.connection import Connection
from kshare.net.pending import OnReply, PendingRequest
from kshare.net.pool import Pool
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Request
from kshare.protocol.messages import ShareFetchResponse
from kshare.state.session import INITIAL_EPOCH


class SessionConnection(Protocol):
    """The way to one broker, as a session needs it."""

    @property
    def is_free(self) -> bool:
        """It is open, and what is sent now leaves at once."""
        ...

    async def open(self, on_closed: Callable[[str], None], timeout: float) -> None:
        """Unless it is; `on_closed` is told why it ended."""
        ...

    def send(self, request: Request[Any], on_reply: OnReply) -> PendingRequest:
        """Sends this, and then what is made of each reply, until that is nothing."""
        ...

    async def wait_for_reply(self, pending: PendingRequest, timeout: float) -> None:
        """The last one, of what was sent; so many seconds for each."""
        ...


class FetchConnection:
    """`open`, `send`, `wait_for_reply`, and so on: one request at a time."""

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
        """The one that the last request was sent on."""

    @property
    def is_free(self) -> bool:
        """It is open, and what is begun now leaves at once."""
        return self._connection is not None and self._connection.is_free

    async def open(self, on_closed: Callable[[str], None], timeout: float) -> None:
        """Unless it is; `on_closed` is called with the reason when it ends, other than by the broker's word."""
        if self._connection is None or not self._connection.is_open:
            self._connection = await self._pool.connection(self._node, purpose="fetch", timeout=timeout)
            self._connection.on_closed(partial(self._on_closed, self._connection, on_closed))

    def send(self, request: Request[Any], on_reply: OnReply) -> PendingRequest:
        """Sends this, and then what `on_reply` makes of each reply, until that is nothing."""
        assert self._connection is not None, "it was opened"
        self._in_use = self._connection
        return self._in_use.send(request, on_reply=partial(self._on_reply, self._in_use, on_reply))

    async def wait_for_reply(self, pending: PendingRequest, timeout: float) -> None:
        """The last one, of what was sent; so many seconds for each."""
        connection = self._in_use
        assert connection is not None, "something was sent"
        try:
            await connection.wait_for_reply(pending, timeout=timeout)
        except KshareError as error:
            if not pending.is_answered:
                self._reporter.answered(pending.request, self._node, self._clock() - pending.since, error)
            if isinstance(error, RequestTimedOut | DecodeError):
                # The broker may still work on it, and whatever came next on this connection would queue behind it. Or
                # nobody knows what it gave us: that is locked until its connection ends.
                self._connection = None
                await connection.aclose()
            raise
        if not connection.is_open:
            await connection.wait_closed()

    def _on_reply(
        self, connection: Connection, on_reply: OnReply, pending: PendingRequest, answer: Any
    ) -> Request[Any] | None:
        if self._reporter.is_on:
            self._report(pending, answer)
        if answer.error_code and not _is_harmless(pending.request, answer.error_code):
            # The session begins anew, but what it acquired (with this very answer, perhaps) stays locked until its
            # connection ends. The answer is the session's reason to do so, so the end isn't told to it as well.
            self._connection = None
            connection.end(ConnectionLost("its session is over"), is_ours=True)
        return on_reply(pending, answer)

    def _report(self, pending: PendingRequest, answer: Any) -> None:
        self._reporter.answered(pending.request, self._node, self._clock() - pending.since, answer)
        if isinstance(answer, ShareFetchResponse):
            self._reporter.fetched(self._node, answer, self._name_of)
        else:
            self._reporter.acknowledged(answer, self._name_of)

    def _on_closed(self, connection: Connection, report: Callable[[str], None], error: KshareError) -> None:
        if self._connection is connection:
            report(str(error))


def _is_harmless(asked: Request[Any], error: int) -> bool:
    """No session was opened, so nothing is locked through this connection: it serves for the next try."""
    opened = getattr(asked, "share_session_epoch", None) == INITIAL_EPOCH
    return opened and error == ErrorCode.SHARE_SESSION_LIMIT_REACHED
