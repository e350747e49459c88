"""Spans and metrics in OpenTelemetry's SDK, from workers on the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from kshare.testing import Broker
from kshare.worker import Delivery, Retry, RetryTopics, Worker
from kshare.worker.opentelemetry import OpenTelemetryWorkerObserver
from tests.helpers.running_worker import from_the_start, running, until

pytestmark = pytest.mark.anyio

TRACE, SPAN = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
PARENT = ("traceparent", f"00-{TRACE:032x}-{SPAN:016x}-01".encode())


class Telemetry:
    """Everything that was exported."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._tracers = TracerProvider()
        self._tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._metrics = InMemoryMetricReader()
        self._meters = MeterProvider([self._metrics])
        self.observer = OpenTelemetryWorkerObserver(
            self._tracers.get_tracer("test"), self._meters.get_meter("test")
        )

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._spans.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def points(self, name: str) -> list[tuple[dict[str, object], float]]:
        """Attributes, and value or count."""
        data = self._metrics.get_metrics_data()
        assert data is not None
        metrics = [
            metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]
        found: list[tuple[dict[str, object], float]] = []
        for metric in metrics:
            for point in metric.data.data_points if metric.name == name else ():
                assert isinstance(point, NumberDataPoint | HistogramDataPoint)
                value = point.value if isinstance(point, NumberDataPoint) else point.count
                found.append(({**(point.attributes or {})}, value))
        return found

    def close(self) -> None:
        self._tracers.shutdown()
        self._meters.shutdown()


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    made = Telemetry()
    yield made
    made.close()


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    from_the_start(kshare_broker)
    return kshare_broker


def worker_on(broker: Broker, telemetry: Telemetry, **options: object) -> Worker:
    worker = Worker(broker.bootstrap, group="g", **options)  # type: ignore[arg-type]
    worker.observe(telemetry.observer)
    return worker


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


async def test_processing_and_settling_follow_the_conventions(
    broker: Broker, telemetry: Telemetry, anyio_backend: str
) -> None:
    worker = worker_on(broker, telemetry)

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        pass

    broker.produce("orders", [b"1"], headers=[PARENT])
    async with running(worker):
        await until(lambda: len(telemetry.spans) == 2)
    (process,), (accept,) = telemetry.named("process orders"), telemetry.named("accept orders")
    coordinates = {
        "messaging.system": "kafka",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.consumer.group.name": "g",
        "messaging.kafka.offset": 0,
        "kshare.handler": "ship",
        "kshare.attempt": 1,
    }
    assert process.kind is SpanKind.CONSUMER
    assert dict(process.attributes or {}) == coordinates | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "kshare.result": "returned",
    }
    assert process.parent is None
    assert accept.kind is SpanKind.CLIENT
    assert accept.parent == process.context
    assert dict(accept.attributes or {}) == coordinates | {
        "messaging.operation.name": "accept",
        "messaging.operation.type": "settle",
        "kshare.outcome": "accepted",
    }
    assert linked(process) == linked(accept) == [(TRACE, SPAN)]


@pytest.mark.lengthy
@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_handlers_run_in_the_context_of_their_span(
    broker: Broker, telemetry: Telemetry, anyio_backend: str, place: str
) -> None:
    worker = worker_on(broker, telemetry)
    seen: list[trace.SpanContext] = []

    async def in_loop(value: bytes) -> None:
        seen.append(trace.get_current_span().get_span_context())

    def in_thread(value: bytes) -> None:
        seen.append(trace.get_current_span().get_span_context())

    worker.handler("orders")(in_loop if place == "loop" else in_thread)
    broker.produce("orders", [b"1", b"2"])
    async with running(worker):
        await until(lambda: len(telemetry.spans) == 4)
        assert not trace.get_current_span().get_span_context().is_valid
    spans = [span.context for span in telemetry.named("process orders")]
    assert {context.span_id for context in seen} == {
        context.span_id for context in spans if context is not None
    }


@pytest.mark.lengthy
async def test_failures_have_an_error_type_and_copies_keep_the_trace(
    broker: Broker, telemetry: Telemetry, anyio_backend: str
) -> None:
    worker = worker_on(
        broker,
        telemetry,
        retry=Retry(attempts=2, delay=0.2),
        hold_up_to=0.1,
        retry_topics=RetryTopics(tiers=(0.2,)),
        dead_letters="dead",
    )

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        raise ValueError("out of stock")

    broker.produce("orders", [b"1"], headers=[PARENT])
    async with running(worker):
        await until(lambda: len(telemetry.spans) == 4)
    first, moved, second, dead = telemetry.spans
    retry_topic = f"orders.retry.{worker.routes()[0].retry_topics()[0][0].rpartition('.')[2]}"
    names = [f"process {retry_topic}", f"reject {retry_topic}"]
    assert [span.name for span in (first, moved, second, dead)] == ["process orders", "accept orders", *names]
    for span in (first, second):
        assert (span.attributes or {})["error.type"] == "ValueError"
        assert span.status.status_code is StatusCode.ERROR
        assert [event.name for event in span.events] == ["exception"]
    assert (moved.attributes or {})["kshare.outcome"] == "moved"
    assert (moved.start_time or 0) < (moved.end_time or 0)
    assert (second.attributes or {})["kshare.attempt"] == 2
    assert [linked(span) for span in telemetry.spans] == [[(TRACE, SPAN)]] * 4
    assert PARENT in list(broker.records("dead")[0].headers)


async def test_a_batch_has_one_span_with_a_link_for_each_record(
    broker: Broker, telemetry: Telemetry, anyio_backend: str
) -> None:
    worker = worker_on(broker, telemetry, batch_size=3)

    @worker.batch_handler("orders")
    async def ship(deliveries: list[Delivery]) -> None:
        deliveries[0].release()
        for delivery in deliveries[1:]:
            assert not delivery.redelivered

    broker.produce("orders", [b"1"], headers=[PARENT])
    broker.produce("orders", [b"2", b"3"], headers=[PARENT])
    async with running(worker):
        await until(lambda: bool(telemetry.named("accept orders") and telemetry.named("release orders")))
    process, (accept, *_) = telemetry.named("process orders")[0], telemetry.named("accept orders")
    assert linked(process) == [(TRACE, SPAN)] * 3
    assert (process.attributes or {})["messaging.batch.message_count"] == 3
    assert "messaging.kafka.offset" not in (process.attributes or {})
    assert (accept.attributes or {})["messaging.batch.message_count"] == 2
    assert linked(accept) == [(TRACE, SPAN)] * 2
    assert accept.parent == process.context


@pytest.mark.lengthy
async def test_metrics_follow_the_conventions(
    broker: Broker, telemetry: Telemetry, anyio_backend: str
) -> None:
    worker = worker_on(broker, telemetry, retry=Retry(attempts=1))

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        if value == b"bad":
            raise ValueError

    broker.produce("orders", [b"1", b"bad", b"3"])
    async with running(worker):
        await until(lambda: len(telemetry.spans) == 6)
    common = {
        "messaging.system": "kafka",
        "messaging.destination.name": "orders",
        "messaging.consumer.group.name": "g",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
    }
    expected = [
        (common | {"kshare.result": "returned"}, 2),
        (common | {"kshare.result": "failed", "error.type": "ValueError"}, 1),
    ]
    assert telemetry.points("messaging.process.duration") == expected
    assert telemetry.points("messaging.client.consumed.messages") == expected


@pytest.mark.lengthy
async def test_malformed_trace_headers_are_ignored(
    broker: Broker, telemetry: Telemetry, anyio_backend: str
) -> None:
    worker = worker_on(broker, telemetry)

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        pass

    for value in (b"\xff", b"00-0-0-01", None):
        broker.produce("orders", [None], headers=[("traceparent", value)])
    async with running(worker):
        await until(lambda: len(telemetry.spans) == 6)
    assert [linked(span) for span in telemetry.spans] == [[]] * 6
    assert (telemetry.spans[0].attributes or {})["messaging.kafka.message.tombstone"] is True
