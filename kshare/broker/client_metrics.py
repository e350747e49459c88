"""Client telemetry (KIP-714): which metrics each client should push, and the last that each has pushed.

Decides what Kafka's ClientMetricsManager decides: which subscriptions match a client, when it may ask and push, and
what is refused. Time is passed in.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kshare.broker.client_match import parse_match
from kshare.broker.configs import Configs
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource, listed
from kshare.errors import DecodeError
from kshare.protocol.checksum import crc32c
from kshare.protocol.compression import Compression, decompress
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.json_form import uuid_text
from kshare.protocol.messages import PushTelemetryRequest
from kshare.protocol.otlp import ResourceMetrics, decode_metrics

ALL_METRICS = "*"
"""Requests all metrics, as the value of `metrics` and in responses."""
ACCEPTED_COMPRESSION = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
"""In the order that the broker prefers. No compression is always accepted."""
_LARGEST_DECOMPRESSED = 4 << 20
"""Clients push a few kilobytes."""
_MOST_KEPT = 32 << 20
"""Decompressed bytes of all clients' last pushes."""
_MOST_INSTANCES = 16_384
"""As in Kafka. The client that was silent for longest is forgotten first."""
_RESERVED_IDS = (bytes(16), bytes(15) + b"\x01")


class ClientIdentity(NamedTuple):
    """What a subscription's `match` may look at."""

    client_id: str
    software_name: str
    software_version: str
    address: str
    port: int


class ClientPush(NamedTuple):
    """The last push of a client instance."""

    instance_id: bytes
    client: ClientIdentity
    received_at: int
    """Milliseconds since 1970."""
    is_terminating: bool
    compression: Compression
    size: int
    """Bytes, as they were received."""
    metrics: bytes
    """As they were pushed, decompressed. Objects for them would take a hundred times the memory."""

    @property
    def resources(self) -> tuple[ResourceMetrics, ...]:
        return tuple(decode_metrics(self.metrics))


class _Instance:
    """A client as the broker remembers it. `version`: of the configs from which its subscription was computed."""

    def __init__(self, client: ClientIdentity) -> None:
        self.client = client
        self.version = -1
        self.subscription_id = 0
        self.interval_ms = 0
        self.metrics: tuple[str, ...] = ()
        self.asked_at = 0
        self.pushed_at = 0
        self.is_terminating = False
        self.last_error = ErrorCode.NONE
        self.last_push: ClientPush | None = None

    def may_ask(self, now: int) -> bool:
        if now - max(self.asked_at, self.pushed_at) < self.interval_ms:
            return False
        self.asked_at = now
        return True

    def may_push(self, now: int) -> bool:
        """The first push after a subscription may come early, since clients vary when they send it."""
        if self.asked_at <= self.pushed_at and now - self.pushed_at < self.interval_ms:
            return False
        self.pushed_at = now
        return True


class Subscription(NamedTuple):
    """What a client instance should push."""

    id: int
    interval_ms: int
    metrics: tuple[str, ...]


class ClientMetrics:
    """The client instances of a cluster."""

    def __init__(self, configs: Configs) -> None:
        self.on_push: Callable[[ClientPush], None] = lambda push: None
        """Called with each push that is taken."""
        self._configs = configs
        self._instances: OrderedDict[bytes, _Instance] = OrderedDict()
        self._kept = 0
        """Bytes of the last pushes."""

    @property
    def max_bytes(self) -> int:
        """The largest push, as it is received."""
        return self._configs.broker_number("telemetry.max.bytes")

    def subscribe(self, instance_id: bytes, client: ClientIdentity, now: int) -> Subscription:
        """What this client should push. Raises RequestError if it asks too soon."""
        instance = self._instance(instance_id, client)
        if not instance.may_ask(now) and instance.last_error not in (
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ):
            raise RequestError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"Request from the client [{uuid_text(instance_id)}] arrived before the next push interval time",
            )
        instance.last_error = ErrorCode.NONE
        return Subscription(instance.subscription_id, instance.interval_ms, instance.metrics)

    def push(self, request: PushTelemetryRequest, client: ClientIdentity, now: int) -> None:
        """Store what a client pushed. Raises RequestError if it is refused.

        Metrics that aren't OTLP are refused, as by a plugin of a real broker that decodes them.
        """
        if request.client_instance_id in _RESERVED_IDS:
            raise RequestError(ErrorCode.INVALID_REQUEST, "invalid client instance id")
        instance = self._instance(request.client_instance_id, client)
        try:
            self._check(instance, request, now)
            if request.metrics:
                push = ClientPush(
                    request.client_instance_id,
                    client,
                    now,
                    request.terminating,
                    Compression(request.compression_type),
                    len(request.metrics),
                    _checked(request.compression_type, request.metrics),
                )
                self._keep(instance, push)
                self.on_push(push)
        except RequestError as refusal:
            instance.last_error = refusal.code
            raise
        instance.is_terminating = request.terminating
        instance.last_error = ErrorCode.NONE

    def _keep(self, instance: _Instance, push: ClientPush) -> None:
        """If all are too many bytes, what the clients pushed that were silent for longest goes first."""
        self._forget(instance)
        instance.last_push = push
        self._kept += len(push.metrics)
        for silent in self._instances.values():
            if self._kept <= _MOST_KEPT:
                break
            self._forget(silent)

    def _forget(self, instance: _Instance) -> None:
        if instance.last_push is not None:
            self._kept -= len(instance.last_push.metrics)
            instance.last_push = None

    def pushes(self) -> Iterator[ClientPush]:
        """The last push of each client that has pushed something."""
        for instance in self._instances.values():
            if instance.last_push is not None:
                yield instance.last_push

    def _instance(self, instance_id: bytes, client: ClientIdentity) -> _Instance:
        instance = self._instances.get(instance_id)
        if instance is None:
            instance = self._instances[instance_id] = _Instance(client)
            if len(self._instances) > _MOST_INSTANCES:
                self._forget(self._instances.popitem(last=False)[1])
        self._instances.move_to_end(instance_id)
        if instance.version != self._configs.version:
            self._resubscribe(instance_id, instance)
        return instance

    def _resubscribe(self, instance_id: bytes, instance: _Instance) -> None:
        """Combine all subscriptions that match: the union of their metrics, at the shortest of their intervals."""
        metrics: dict[str, None] = {}
        interval = int(self._configs.client_metrics("", "interval.ms"))
        for name in self._configs.configured(Resource.CLIENT_METRICS):
            if self._matches(name, instance_id, instance.client):
                metrics |= dict.fromkeys(listed(self._configs.client_metrics(name, "metrics")))
                interval = min(interval, int(self._configs.client_metrics(name, "interval.ms")))
        chosen = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(metrics)
        subscription_id = _subscription_id(chosen, interval, instance_id)
        if subscription_id != instance.subscription_id:
            instance.asked_at = instance.pushed_at = 0
        instance.version, instance.subscription_id = self._configs.version, subscription_id
        instance.metrics, instance.interval_ms = chosen, interval

    def _matches(self, subscription: str, instance_id: bytes, client: ClientIdentity) -> bool:
        attributes = {
            "client_instance_id": uuid_text(instance_id),
            "client_id": client.client_id,
            "client_software_name": client.software_name,
            "client_software_version": client.software_version,
            "client_source_address": client.address,
            "client_source_port": str(client.port),
        }
        patterns = parse_match(self._configs.client_metrics(subscription, "match"))
        return all(pattern.fullmatch(attributes[name]) for name, pattern in patterns.items())

    def _check(self, instance: _Instance, request: PushTelemetryRequest, now: int) -> None:
        if instance.is_terminating:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                "the client has sent its terminating push before, which is the last",
            )
        if not instance.may_push(now) and not request.terminating:
            raise RequestError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the push arrived before the next push interval time"
            )
        if request.subscription_id != instance.subscription_id:
            raise RequestError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "the subscription has changed")
        compression, size = request.compression_type, len(request.metrics)
        if compression not in (Compression.NONE, *ACCEPTED_COMPRESSION):
            raise RequestError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression type {compression}"
            )
        if size > self.max_bytes:
            raise RequestError(
                ErrorCode.TELEMETRY_TOO_LARGE, f"{size} bytes, and the limit is {self.max_bytes}"
            )


def _subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: bytes) -> int:
    """Differs for other metrics, intervals and clients, and is the same on all nodes and after a restart."""
    checksum = crc32c(f"{sorted(metrics)}{interval_ms}".encode() + instance_id)
    number: int = struct.unpack(">i", struct.pack(">I", checksum))[0]
    return number


def _checked(compression: int, metrics: bytes) -> bytes:
    """Decompressed. Raises RequestError if they can't be read."""
    try:
        plain = bytes(decompress(compression, metrics, _LARGEST_DECOMPRESSED))
        decode_metrics(plain)
        return plain
    except DecodeError as broken:
        raise RequestError(ErrorCode.INVALID_RECORD, str(broken)) from broken
