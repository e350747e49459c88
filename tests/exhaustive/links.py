"""Connections of a member to nodes, in place of `kshare/net`: a request waits until an event lets something happen."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from kshare.errors import ConnectionLost, KshareError, RequestTimedOut
from kshare.net.pending import OnResponse, PendingRequest

_numbers = count(1)


class Link:
    """A connection, as `Connection` behaves: one request under way."""

    def __init__(self, node: int, clock: Callable[[], float]) -> None:
        self.number = next(_numbers)
        self.node = node
        self.request: Any = None
        """On its way to the node."""
        self.waiting: tuple[Any, dict[Any, int]] | None = None
        """A fetch that waits at the node, and the outcomes of its acknowledgements."""
        self.response: Any = None
        """On its way back."""
        self.is_noticed = False
        """Whether the node knows that it has ended."""
        self._clock = clock
        self._pending: PendingRequest | None = None
        self._error: KshareError | None = None
        self._on_closed: list[Callable[[KshareError], None]] = []

    @property
    def is_open(self) -> bool:
        return self._error is None

    is_free = is_open

    def on_closed(self, callback: Callable[[KshareError], None]) -> None:
        self._on_closed.append(callback)

    def send(self, request: Any, *, on_response: OnResponse) -> PendingRequest:
        self._pending = PendingRequest(request, on_response)
        self._send(self._pending, request)
        return self._pending

    def _send(self, pending: PendingRequest, request: Any) -> None:
        pending.request, pending.has_response, pending.since = request, False, self._clock()
        if self._error is None:
            self.request = request
        else:
            pending.finish()

    async def wait_for_response(self, pending: PendingRequest, *, timeout: float) -> None:
        while not pending.is_done and self._clock() < pending.since + timeout:
            with anyio.CancelScope(deadline=pending.since + timeout):
                await pending.wait()
        if pending.error is not None:
            raise pending.error
        if pending.response is None:
            raise self._error or RequestTimedOut("no response")

    def arrive(self) -> None:
        """The response reaches the member."""
        response, self.response = self.response, None
        pending = self._pending
        assert pending is not None, "something was sent"
        assert pending.on_response is not None
        following = None
        try:
            pending.has_response = True
            following = pending.on_response(pending, response)
        except Exception as error:
            pending.error = error
        if following is not None:
            self._send(pending, following)
        else:
            pending.response = memoryview(b"")
            pending.finish()

    def end(self, error: KshareError, *, is_ours: bool = False) -> None:
        if self._error is not None:
            return
        self._error = error
        self.response = None
        if self._pending is not None:
            self._pending.finish()
        for callback in self._on_closed:
            callback(error)

    async def aclose(self) -> None:
        self.end(ConnectionLost("closed on this side"), is_ours=True)
        await checkpoint()

    async def wait_closed(self) -> None:
        await checkpoint()


class Links:
    """In place of a `Pool`: all connections of one member, those that nodes don't know the end of included."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.all: list[Link] = []

    async def connection(self, node: int, *, purpose: str = "", timeout: float | None = None) -> Link:
        await checkpoint()
        self.all.append(Link(node, self._clock))
        return self.all[-1]

    def forget_ended(self) -> None:
        """Those that have ended on both sides."""
        self.all = [link for link in self.all if link.is_open or not link.is_noticed]
