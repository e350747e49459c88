"""The metrics that a consumer pushes: names, kinds and values."""

from __future__ import annotations

import pytest

from kshare.engine.consumer_metrics import ConsumerMetrics
from kshare.protocol.otlp import OtlpMetric, ResourceMetrics, Temporality, decode_metrics

PEER, OTHER = "one:9092", "two:9092"
NODES = {PEER: 1, OTHER: 2}
SHARE = "org.apache.kafka.consumer.share."
FETCHES = f"{SHARE}fetch.manager."


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def clock(self) -> float:
        return self.now

    def wall_ns(self) -> int:
        return int(self.now * 1e9)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def metrics(time: Time) -> ConsumerMetrics:
    return ConsumerMetrics(time.clock, time.wall_ns)


def collected(metrics: ConsumerMetrics, prefix: str = "", *, is_delta: bool = True) -> ResourceMetrics:
    data = metrics.collect(
        (("group_id", "g"),), lambda name: name.startswith(prefix), NODES.__getitem__, is_delta=is_delta
    )
    (resource,) = decode_metrics(data)
    return resource


def values(metrics: ConsumerMetrics, prefix: str = "", *, is_delta: bool = True) -> dict[str, float]:
    """By name and node."""
    found = {}
    for metric in collected(metrics, prefix, is_delta=is_delta).metrics:
        for point in metric.points:
            found[" ".join([metric.name, *dict(point.attributes).values()])] = point.value
    return found


def test_fetches_are_counted_as_by_java(metrics: ConsumerMetrics, time: Time) -> None:
    metrics.on_fetch(0.25, 0)
    metrics.on_fetched(100, 5000)
    metrics.on_fetch(0.75, 7)
    metrics.on_fetched(300, 9000)
    metrics.on_acknowledged(350, is_refused=False)
    metrics.on_acknowledged(50, is_refused=True)
    time.now += 3
    found = {name.removeprefix(FETCHES): value for name, value in values(metrics, FETCHES).items()}
    rates = {name: found.pop(name) for name in list(found) if name.endswith(".rate")}
    assert found == {
        "fetch.total": 2,
        "fetch.latency.avg": 500,
        "fetch.latency.max": 750,
        "fetch.throttle.time.avg": 3.5,
        "fetch.throttle.time.max": 7,
        "fetch.size.avg": 7000,
        "fetch.size.max": 9000,
        "bytes.consumed.total": 14000,
        "records.per.request.avg": 200,
        "records.per.request.max": 300,
        "records.consumed.total": 400,
        "acknowledgements.send.total": 400,
        "acknowledgements.error.total": 50,
    }
    assert rates["records.consumed.rate"] == pytest.approx(400 / 33)
    assert len(rates) == 5


def test_the_coordinators_metrics(metrics: ConsumerMetrics, time: Time) -> None:
    metrics.on_heartbeat(0.020)
    metrics.on_heartbeat(0.010)
    metrics.on_rebalance()
    time.now += 2.5
    found = values(metrics, f"{SHARE}coordinator.")
    assert found[f"{SHARE}coordinator.heartbeat.total"] == 2
    assert found[f"{SHARE}coordinator.heartbeat.response.time.max"] == 20
    assert found[f"{SHARE}coordinator.last.heartbeat.seconds.ago"] == 2
    assert found[f"{SHARE}coordinator.rebalance.total"] == 1
    assert found[f"{SHARE}coordinator.rebalance.rate.per.hour"] == pytest.approx(0.999, abs=1e-3)


def test_connections_and_nodes(metrics: ConsumerMetrics, time: Time) -> None:
    for peer in (PEER, PEER, OTHER):
        metrics.on_connected(peer)
    metrics.on_disconnected(OTHER)
    metrics.on_sent(PEER, 100)
    metrics.on_sent(OTHER, 50)
    metrics.on_received(PEER, 900)
    metrics.on_response(PEER, 0.004)
    found = {name.removeprefix("org.apache.kafka.consumer."): v for name, v in values(metrics).items()}
    assert found["connection.count"] == 2
    assert found["connection.creation.total"] == 3
    assert found["connection.close.total"] == 1
    assert found["request.total"] == 2
    assert found["request.size.max"] == 100
    assert found["outgoing.byte.total"] == 150
    assert found["incoming.byte.total"] == 900
    assert found["network.io.total"] == 3
    assert found["node.request.total node-1"] == 1
    assert found["node.request.size.avg node-2"] == 50
    assert found["node.request.latency.max node-1"] == pytest.approx(4)
    assert "node.request.latency.max node-2" not in found


def test_a_node_that_isnt_asked_any_more_is_left_out(metrics: ConsumerMetrics, time: Time) -> None:
    metrics.on_sent(OTHER, 50)
    assert values(metrics)["org.apache.kafka.consumer.node.request.total node-2"] == 1
    metrics.on_taken()
    time.now += 3601
    assert not any(name.endswith("node-2") for name in values(metrics))
    metrics.on_sent(OTHER, 60)
    assert values(metrics)["org.apache.kafka.consumer.node.outgoing.byte.total node-2"] == 60


def test_polls(metrics: ConsumerMetrics, time: Time) -> None:
    first = metrics.on_poll()
    time.now += 1
    metrics.on_polled(first)
    time.now += 3  # the user's code runs
    second = metrics.on_poll()
    time.now += 1
    metrics.on_polled(second)
    found = values(metrics, f"{SHARE}")
    assert found[f"{SHARE}time.between.poll.avg"] == 4000
    assert found[f"{SHARE}last.poll.seconds.ago"] == 1
    assert found[f"{SHARE}poll.idle.ratio.avg"] == pytest.approx(1 / 5)


def only(metrics: ConsumerMetrics, name: str, *, is_delta: bool) -> OtlpMetric:
    (metric,) = collected(metrics, name, is_delta=is_delta).metrics
    return metric


def test_deltas_count_from_the_last_push_that_was_taken(metrics: ConsumerMetrics, time: Time) -> None:
    name, start = f"{FETCHES}records.consumed.total", time.wall_ns()
    metrics.on_fetched(10, 1)
    time.now += 1
    metric = only(metrics, name, is_delta=True)
    assert (metric.temporality, metric.is_monotonic) == (Temporality.DELTA, True)
    assert (metric.points[0].value, metric.points[0].start_ns) == (10, start)
    metrics.on_fetched(5, 1)
    assert only(metrics, name, is_delta=True).points[0].value == 15  # the first wasn't taken
    metrics.on_taken()
    pushed = time.wall_ns()
    metrics.on_fetched(2, 1)
    time.now += 1
    point = only(metrics, name, is_delta=True).points[0]
    assert (point.value, point.start_ns, point.time_ns) == (2, pushed, time.wall_ns())
    cumulative = only(metrics, name, is_delta=False)
    assert cumulative.temporality is Temporality.CUMULATIVE
    assert (cumulative.points[0].value, cumulative.points[0].start_ns) == (17, start)


def test_gauges_have_no_temporality_and_none_is_sent_without_values(metrics: ConsumerMetrics) -> None:
    metric = only(metrics, f"{FETCHES}fetch.rate", is_delta=True)
    assert metric.temporality is None
    assert isinstance(metric.points[0].value, float)
    assert not collected(metrics, f"{FETCHES}fetch.latency").metrics
    started = only(metrics, "org.apache.kafka.app.", is_delta=True)
    assert started.points[0].value == 1_000_000


def test_the_resource_has_the_given_attributes(metrics: ConsumerMetrics) -> None:
    assert collected(metrics).attributes == (("group_id", "g"),)
