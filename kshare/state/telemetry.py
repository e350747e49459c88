"""Client telemetry (KIP-714): decides when to ask what metrics brokers want, when to push, and with what compression.

    state        | what is due at `wake_at`             | what follows
    -------------+--------------------------------------+--------------------------------------------------------
    SUBSCRIBING  | ask for the subscription             | PUSHING; SUBSCRIBING later, if no metrics are wanted
    PUSHING      | push                                 | PUSHING; SUBSCRIBING after an error or without response
    TERMINATING  | the last push, if metrics are wanted | OFF
    OFF          | nothing                              | OFF

Java's client does the same, with two exceptions: a push that was refused for its compression is followed by one
without, and what a refused push has counted is part of the next one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from kshare.protocol.compression import Compression, compress
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

DEFAULT_INTERVAL_S = 300.0
"""Kafka's default, when a broker hasn't sent an interval."""
_SHORTEST_INTERVAL_S = 0.1
"""The shortest that Kafka allows in a subscription."""
_FIRST_PUSH_AFTER = (0.5, 1.5)
"""The share of an interval: random, so that not all clients push at once after a broker has started."""
_ALL = ("*", "")
_AT_ONCE = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_NEVER_AGAIN = (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_VERSION)
_NOT_STORED = (*_AT_ONCE, ErrorCode.THROTTLING_QUOTA_EXCEEDED)


class TelemetryState(enum.Enum):
    SUBSCRIBING = "subscribing"
    PUSHING = "pushing"
    TERMINATING = "terminating"
    OFF = "off"


class Telemetry:
    """The state machine of one client. `random` returns numbers from 0 to 1."""

    def __init__(self, now: float, random: Callable[[], float]) -> None:
        self.state = TelemetryState.SUBSCRIBING
        self.wake_at = now
        self.is_delta = False
        """Whether sums contain what was counted since the last push, or since the beginning."""
        self.instance_id = bytes(16)
        """Assigned by the first broker that is asked."""
        self._random = random
        self._interval_s = DEFAULT_INTERVAL_S
        self._subscription_id = 0
        self._prefixes: tuple[str, ...] = ()
        self._max_bytes = 0
        self._compression = Compression.NONE
        self._refused_compression: set[Compression] = set()

    def wants(self, name: str) -> bool:
        """Whether a metric is subscribed to."""
        return name.startswith(self._prefixes)

    # --- the subscription

    def subscription_request(self, now: float) -> GetTelemetrySubscriptionsRequest | None:
        """What to ask now, if it is time to ask."""
        if self.state is not TelemetryState.SUBSCRIBING or now < self.wake_at:
            return None
        return GetTelemetrySubscriptionsRequest(self.instance_id)

    def on_subscription(self, response: GetTelemetrySubscriptionsResponse, now: float) -> None:
        if self.state is not TelemetryState.SUBSCRIBING:
            return
        if response.error_code:
            self._on_error(response.error_code, now + self._interval_s)
            return
        if any(response.client_instance_id):
            self.instance_id = response.client_instance_id
        self._subscription_id = response.subscription_id
        is_valid = response.push_interval_ms > 0
        interval_s = response.push_interval_ms / 1000 if is_valid else DEFAULT_INTERVAL_S
        self._interval_s = max(interval_s, _SHORTEST_INTERVAL_S)
        self._max_bytes = response.telemetry_max_bytes
        self.is_delta = response.delta_temporality
        names = response.requested_metrics
        self._prefixes = ("",) if any(name in _ALL for name in names) else tuple(names)
        self._compression = self._chosen_compression(response.accepted_compression_types)
        self.wake_at = now + self._interval_s
        if self._prefixes:
            least, most = _FIRST_PUSH_AFTER
            self.state = TelemetryState.PUSHING
            self.wake_at = now + self._interval_s * (least + (most - least) * self._random())

    # --- pushing

    def is_push_due(self, now: float) -> bool:
        """Whether to call `push_request` with the metrics of now."""
        if self.state is TelemetryState.TERMINATING:
            return True
        return self.state is TelemetryState.PUSHING and now >= self.wake_at

    def push_request(self, metrics: bytes, now: float) -> PushTelemetryRequest | None:
        """The request; None if the metrics are larger than the broker accepts, and are dropped."""
        compressed = compress(self._compression, metrics)
        is_last = self.state is TelemetryState.TERMINATING
        if is_last:
            self.state = TelemetryState.OFF
        if len(compressed) > self._max_bytes > 0:
            self.wake_at = now + self._interval_s
            return None
        return PushTelemetryRequest(
            self.instance_id, self._subscription_id, is_last, self._compression, compressed
        )

    def on_push(self, response: PushTelemetryResponse, now: float) -> bool:
        """Returns False if the broker hasn't taken the metrics, which are then part of the next push."""
        if self.state is TelemetryState.PUSHING:
            if response.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
                self._refused_compression.add(self._compression)
            if response.error_code:
                is_outdated = response.error_code in _AT_ONCE
                self._on_error(response.error_code, now if is_outdated else now + self._interval_s)
            else:
                self.wake_at = now + self._interval_s
        return response.error_code not in _NOT_STORED

    def on_no_response(self, now: float) -> None:
        """The subscription is asked for again, because another broker may respond next."""
        if self.state in (TelemetryState.PUSHING, TelemetryState.SUBSCRIBING):
            self.state = TelemetryState.SUBSCRIBING
            self.wake_at = now + self._interval_s

    def terminate(self) -> None:
        """The client is being closed: one more push is due, if the broker wants metrics."""
        is_subscribed = self.state is TelemetryState.PUSHING
        self.state = TelemetryState.TERMINATING if is_subscribed else TelemetryState.OFF

    def _on_error(self, code: int, wake_at: float) -> None:
        self.state = TelemetryState.SUBSCRIBING
        self.wake_at = wake_at
        if code in _NEVER_AGAIN:
            self.state = TelemetryState.OFF

    def _chosen_compression(self, accepted: bytes) -> Compression:
        """The first in the broker's order that we know, and that wasn't refused."""
        for number in accepted:
            if number in _KNOWN and Compression(number) not in self._refused_compression:
                return Compression(number)
        return Compression.NONE


_KNOWN = frozenset(map(int, Compression))
