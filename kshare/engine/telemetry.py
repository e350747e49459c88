"""Pushes a consumer's metrics to the brokers (KIP-714), if they want any. Drives `state/telemetry` with `net`.

Never disturbs consuming. Pushes have a connection of their own, because a broker's plugin that takes long would delay
the heartbeats behind it. No broker is connected to while none responds. Each request has a deadline, and whatever
fails is a debug message in the log.
"""

from __future__ import annotations

import logging
from random import random
from typing import Any, TypeVar

import anyio

from kshare.engine.consumer_metrics import ConsumerMetrics
from kshare.errors import KshareError
from kshare.net.connection import Connection
from kshare.net.pool import Pool
from kshare.protocol.error_codes import error_name
from kshare.protocol.message import Request
from kshare.protocol.messages import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from kshare.state.telemetry import Telemetry, TelemetryState

log = logging.getLogger("kshare.telemetry")

ResponseT = TypeVar("ResponseT", GetTelemetrySubscriptionsResponse, PushTelemetryResponse)

_LONGEST_REQUEST_S = 10.0
_LAST_PUSH_S = 0.5
"""How long closing waits for the last push: a responsive broker takes milliseconds."""
_LOOK_AGAIN_S = 1.0
"""While no connection is open, because the consumer is reconnecting."""


class TelemetryPusher:
    """`run` is a task of the consumer, until `push_last` ends it and sends the last metrics."""

    def __init__(
        self,
        pool: Pool,
        metrics: ConsumerMetrics,
        attributes: tuple[tuple[str, str], ...],
    ) -> None:
        """`attributes`: those of this consumer as a resource, such as its group."""
        self._pool = pool
        self._metrics = metrics
        self._attributes = attributes
        self._machine = Telemetry(anyio.current_time(), random)
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()

    async def run(self) -> None:
        """Ask and push, until `push_last` is called, or until a broker's error says never again."""
        try:
            with self._scope:
                await self._repeat()
        finally:
            self._ended.set()

    async def _repeat(self) -> None:
        machine = self._machine
        timeout = min(_LONGEST_REQUEST_S, self._pool.settings.request_timeout)
        while machine.state is not TelemetryState.OFF:
            await anyio.sleep_until(machine.wake_at)
            if self._pool.open_connection() is None:
                await anyio.sleep(_LOOK_AGAIN_S)
                continue
            try:
                await self._step(timeout)
            except KshareError as error:
                log.debug("client telemetry: %s", error)
                machine.on_no_response(anyio.current_time())
            except Exception:  # a bug here is no reason to stop consuming
                log.warning("client telemetry failed: this consumer stops pushing metrics", exc_info=True)
                return

    async def push_last(self) -> None:
        """Tell the brokers that this consumer ends, if one is there to listen. Takes half a second at most."""
        self._scope.cancel()
        await self._ended.wait()  # what it was pushing is counted before the last metrics are collected
        self._machine.terminate()
        if self._pool.open_connection() is None:
            return
        try:
            with anyio.move_on_after(_LAST_PUSH_S):
                await self._step(_LAST_PUSH_S)
        except Exception as error:
            log.debug("client telemetry: the last push failed: %s", error)

    async def _step(self, timeout: float) -> None:
        machine, now = self._machine, anyio.current_time()
        request = machine.subscription_request(now)
        if request is not None:
            connection = await self._connection(timeout)
            subscription = await connection.ask(request, timeout=timeout)
            machine.on_subscription(_logged(request, subscription), anyio.current_time())
        elif machine.is_push_due(now):
            await self._push(timeout)

    async def _connection(self, timeout: float) -> Connection:
        """One of its own: brokers respond to the requests of a connection in turn, so a slow plugin would delay all."""
        return await self._pool.connection(None, purpose="telemetry", timeout=timeout)

    async def _push(self, timeout: float) -> None:
        machine = self._machine
        # Before collecting, so that nothing is lost if it fails.
        connection = await self._connection(timeout)
        metrics = self._metrics.collect(
            self._attributes, machine.wants, self._pool.node_at, is_delta=machine.is_delta
        )
        request = machine.push_request(metrics, anyio.current_time())
        is_taken = True  # unless a broker says otherwise: nothing is counted twice
        try:
            if request is None:
                log.debug("client telemetry: %d bytes are more than the broker accepts", len(metrics))
                return
            response = _logged(request, await connection.ask(request, timeout=timeout))
            is_taken = machine.on_push(response, anyio.current_time())
        finally:
            if is_taken:
                self._metrics.on_taken()


def _logged(request: Request[Any], response: ResponseT) -> ResponseT:
    if response.error_code:
        log.debug("client telemetry: %s: %s", request.NAME, error_name(response.error_code))
    return response


def has_telemetry(connection: Connection) -> bool:
    """Whether the broker takes client metrics. Brokers only say so if a plugin receives them."""
    return all(
        connection.supports(request) for request in (GetTelemetrySubscriptionsRequest, PushTelemetryRequest)
    )
