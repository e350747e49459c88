"""The metrics that a consumer pushes to the brokers: what Java's share consumer counts, by the same names.

Counted per request, response and connection, never per record. What Java measures of its own threads, queues and
selectors has no counterpart here and is missing; so is a mean or maximum without values, which Java sends as NaN.
Contains no names of topics, and nothing that users configured but the group, the rack and the node ids.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kshare.protocol.otlp import OtlpMetric, OtlpPoint, ResourceMetrics, Temporality, encode_metrics
from kshare.state.sampled import Sampled
from kshare.surroundings import monotonic

_PREFIX = "org.apache.kafka."
_CONSUMER = f"{_PREFIX}consumer."
_NODE = f"{_CONSUMER}node."
_FETCHES = f"{_CONSUMER}share.fetch.manager."
_COORDINATOR = f"{_CONSUMER}share.coordinator."
_POLL = f"{_CONSUMER}share."
_HOUR_S = 3600.0
_IDLE_NODE_S = _HOUR_S
"""A node that wasn't asked for this long is left out, as by Java."""

_Label = tuple[tuple[str, str], ...]


class _Value(NamedTuple):
    name: str
    value: float | None
    is_total: bool = False
    label: _Label = ()


class _Traffic:
    """Requests and bytes: of one node, or of all."""

    def __init__(self, now: float) -> None:
        self.sent = Sampled(now)
        """The sizes of requests."""
        self.received = Sampled(now)
        self.latency_ms = Sampled(now)
        """The milliseconds to each response."""

    def values(self, prefix: str, now: float, label: _Label = ()) -> Iterator[_Value]:
        yield from _frequency(f"{prefix}request", self.sent, now, label)
        yield from _frequency(f"{prefix}response", self.latency_ms, now, label)
        yield from _meter(f"{prefix}outgoing.byte", self.sent, now, label)
        yield from _meter(f"{prefix}incoming.byte", self.received, now, label)
        yield from _spread(f"{prefix}request.size", self.sent, now, label)


class ConsumerMetrics:
    """A `NetMeter`, and told by the engine what it does. `collect` returns what to push."""

    def __init__(
        self,
        clock: Callable[[], float] = monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        now = clock()
        self._clock = clock
        self._wall_ns = wall_ns
        self._started_ns = wall_ns()
        self._all = _Traffic(now)
        self._nodes: dict[str, _Traffic] = {}
        self._connections = 0
        self._connects = Sampled(now)
        self._disconnects = Sampled(now)
        self._fetch_ms = Sampled(now)
        self._throttle_ms = Sampled(now)
        self._fetched_bytes = Sampled(now)
        self._fetched_records = Sampled(now)
        self._acknowledged = Sampled(now)
        self._refused = Sampled(now)
        self._heartbeat_ms = Sampled(now)
        self._rebalances = Sampled(now, _HOUR_S)
        self._between_polls_ms = Sampled(now)
        self._idle_ratio = Sampled(now)
        self._polled_at: float | None = None
        self._pushed: dict[tuple[str, _Label], float] = {}
        """The totals of the last push that a broker has taken."""
        self._pushed_ns = self._started_ns
        self._collected: tuple[dict[tuple[str, _Label], float], int] = ({}, self._started_ns)

    # --- connections

    def on_connected(self, peer: str) -> None:
        self._connections += 1
        self._connects.record(1, self._clock())

    def on_disconnected(self, peer: str) -> None:
        self._connections -= 1
        self._disconnects.record(1, self._clock())

    def on_sent(self, peer: str, size: int) -> None:
        now = self._clock()
        self._all.sent.record(size, now)
        self._node(peer, now).sent.record(size, now)

    def on_received(self, peer: str, size: int) -> None:
        now = self._clock()
        self._all.received.record(size, now)
        self._node(peer, now).received.record(size, now)

    def on_response(self, peer: str, seconds: float) -> None:
        now = self._clock()
        self._all.latency_ms.record(1000 * seconds, now)
        self._node(peer, now).latency_ms.record(1000 * seconds, now)

    # --- the group

    def on_fetch(self, seconds: float, throttle_ms: int) -> None:
        """A fetch got a response."""
        now = self._clock()
        self._fetch_ms.record(1000 * seconds, now)
        self._throttle_ms.record(throttle_ms, now)

    def on_fetched(self, records: int, size: int) -> None:
        """A fetch returned records."""
        now = self._clock()
        self._fetched_records.record(records, now)
        self._fetched_bytes.record(size, now)

    def on_acknowledged(self, records: int, *, is_refused: bool) -> None:
        """Acknowledgements were confirmed, refused, or have an open outcome."""
        now = self._clock()
        self._acknowledged.record(records, now)
        if is_refused:
            self._refused.record(records, now)

    def on_heartbeat(self, seconds: float) -> None:
        now = self._clock()
        self._heartbeat_ms.record(1000 * seconds, now)

    def on_rebalance(self) -> None:
        self._rebalances.record(1, self._clock())

    # --- the user's code

    def on_poll(self) -> float:
        """A loop asks for the next batch, as Java's users call poll(). Returns the time, for `on_polled`."""
        now = self._clock()
        if self._polled_at is not None:
            self._between_polls_ms.record(1000 * (now - self._polled_at), now)
        return now

    def on_polled(self, asked_at: float) -> None:
        """The loop that asked has its batch."""
        now = self._clock()
        if self._polled_at is not None and now > self._polled_at:
            self._idle_ratio.record(min(1.0, (now - asked_at) / (now - self._polled_at)), now)
        self._polled_at = asked_at

    # --- pushing

    def collect(
        self,
        attributes: tuple[tuple[str, str], ...],
        wants: Callable[[str], bool],
        node_at: Callable[[str], int],
        *,
        is_delta: bool,
    ) -> bytes:
        """The subscribed metrics in OTLP. `is_delta`: sums contain what was counted since the last `on_taken`."""
        now, now_ns = self._clock(), self._wall_ns()
        totals: dict[tuple[str, _Label], float] = {}
        metrics: list[OtlpMetric] = []
        for name, value, is_total, label in self._values(now, node_at):
            if value is None or not wants(name):
                continue
            if not is_total:
                metrics.append(OtlpMetric(name, (OtlpPoint(float(value), now_ns, attributes=label),)))
                continue
            totals[name, label] = value
            start_ns = self._started_ns
            if is_delta:
                value -= self._pushed.get((name, label), 0.0)
                start_ns = self._pushed_ns
            temporality = Temporality.DELTA if is_delta else Temporality.CUMULATIVE
            point = OtlpPoint(float(value), now_ns, start_ns, label)
            metrics.append(OtlpMetric(name, (point,), temporality, is_monotonic=True))
        started = f"{_PREFIX}app.info.start.time.ms"
        if wants(started):
            metrics.append(OtlpMetric(started, (OtlpPoint(self._started_ns // 1_000_000, now_ns),)))
        self._collected = totals, now_ns
        return encode_metrics([ResourceMetrics(attributes, tuple(metrics))])

    def on_taken(self) -> None:
        """What was collected last isn't part of the next push."""
        totals, self._pushed_ns = self._collected
        self._pushed |= totals

    def _node(self, peer: str, now: float) -> _Traffic:
        found = self._nodes.get(peer)
        if found is None:
            found = self._nodes[peer] = _Traffic(now)
        return found

    def _values(self, now: float, node_at: Callable[[str], int]) -> Iterator[_Value]:
        yield _Value(f"{_CONSUMER}connection.count", self._connections)
        yield from _meter(f"{_CONSUMER}connection.creation", self._connects, now)
        yield from _meter(f"{_CONSUMER}connection.close", self._disconnects, now)
        yield from self._all.values(_CONSUMER, now)
        both = self._all.sent, self._all.latency_ms
        yield _Value(f"{_CONSUMER}network.io.rate", sum(each.frequency(now) for each in both))
        yield _Value(f"{_CONSUMER}network.io.total", float(sum(each.count for each in both)), True)
        for peer, traffic in list(self._nodes.items()):
            label = (("node_id", f"node-{node_at(peer)}"),)
            if now - traffic.sent.last_at > _IDLE_NODE_S:
                del self._nodes[peer]
                self._pushed = {key: total for key, total in self._pushed.items() if key[1] != label}
                continue
            yield from traffic.values(_NODE, now, label)
            yield from _spread(f"{_NODE}request.latency", traffic.latency_ms, now, label)
        yield from self._fetch_values(now)
        yield from self._coordinator_values(now)
        yield from self._poll_values(now)

    def _fetch_values(self, now: float) -> Iterator[_Value]:
        yield from _frequency(f"{_FETCHES}fetch", self._fetch_ms, now)
        yield from _spread(f"{_FETCHES}fetch.latency", self._fetch_ms, now)
        yield from _spread(f"{_FETCHES}fetch.throttle.time", self._throttle_ms, now)
        yield from _spread(f"{_FETCHES}fetch.size", self._fetched_bytes, now)
        yield from _meter(f"{_FETCHES}bytes.consumed", self._fetched_bytes, now)
        yield from _spread(f"{_FETCHES}records.per.request", self._fetched_records, now)
        yield from _meter(f"{_FETCHES}records.consumed", self._fetched_records, now)
        yield from _meter(f"{_FETCHES}acknowledgements.send", self._acknowledged, now)
        yield from _meter(f"{_FETCHES}acknowledgements.error", self._refused, now)

    def _coordinator_values(self, now: float) -> Iterator[_Value]:
        yield from _frequency(f"{_COORDINATOR}heartbeat", self._heartbeat_ms, now)
        yield _Value(f"{_COORDINATOR}heartbeat.response.time.max", self._heartbeat_ms.highest(now))
        if self._heartbeat_ms.count:
            ago = float(int(now - self._heartbeat_ms.last_at))
            yield _Value(f"{_COORDINATOR}last.heartbeat.seconds.ago", ago)
        yield _Value(f"{_COORDINATOR}rebalance.total", self._rebalances.total, True)
        yield _Value(f"{_COORDINATOR}rebalance.rate.per.hour", _HOUR_S * self._rebalances.rate(now))

    def _poll_values(self, now: float) -> Iterator[_Value]:
        yield from _spread(f"{_POLL}time.between.poll", self._between_polls_ms, now)
        yield _Value(f"{_POLL}poll.idle.ratio.avg", self._idle_ratio.mean(now))
        if self._polled_at is not None:
            yield _Value(f"{_POLL}last.poll.seconds.ago", float(int(now - self._polled_at)))


def _meter(name: str, sampled: Sampled, now: float, label: _Label = ()) -> Iterator[_Value]:
    yield _Value(f"{name}.rate", sampled.rate(now), label=label)
    yield _Value(f"{name}.total", sampled.total, True, label)


def _frequency(name: str, sampled: Sampled, now: float, label: _Label = ()) -> Iterator[_Value]:
    """How many values there were, whatever they are."""
    yield _Value(f"{name}.rate", sampled.frequency(now), label=label)
    yield _Value(f"{name}.total", float(sampled.count), True, label)


def _spread(name: str, sampled: Sampled, now: float, label: _Label = ()) -> Iterator[_Value]:
    yield _Value(f"{name}.avg", sampled.mean(now), label=label)
    yield _Value(f"{name}.max", sampled.highest(now), label=label)
