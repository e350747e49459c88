"""Traces and metrics of a worker for OpenTelemetry: `pip install '.[opentelemetry]'`.

    worker.observe(OpenTelemetryWorkerObserver())

Follows the semantic conventions for messaging:

    span            | kind     | covers
    ----------------+----------+---------------------------------------------------------------------------
    process <topic> | CONSUMER | one call of a handler; links to the spans that have produced its records
    accept <topic>  | CLIENT   | settling what that call has processed; as well release, reject, and settle
                    |          | if the lock was lost

A record that is held for another attempt isn't settled, so it has another `process` span, but no other one yet.
Uses OpenTelemetry's API only: the application chooses the exporter, and how trace contexts are written in headers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kshare.installation import extra
from kshare.worker.functions.user_functions import exception_name
from kshare.worker.records.delivery import Delivery
from kshare.worker.rules.decision import RecordOutcome, RunResult
from kshare.worker.watch.observer import HandlerRun, RecordProcessed, WorkerObserver

with extra("opentelemetry", __name__):
    from opentelemetry import context as current
    from opentelemetry import trace
    from opentelemetry.metrics import Meter, get_meter
    from opentelemetry.propagate import extract
    from opentelemetry.propagators.textmap import Getter
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer
    from opentelemetry.util.types import AttributeValue

__all__ = ["OpenTelemetryWorkerObserver"]

Attributes = dict[str, AttributeValue]
TraceHeaders = list[tuple[str, bytes | None]]

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Those of the conventions."""
_OPERATIONS = {
    RecordOutcome.ACCEPTED: "accept",
    RecordOutcome.FILTERED: "accept",
    RecordOutcome.MOVED: "accept",
    RecordOutcome.DEAD_LETTER: "reject",
    RecordOutcome.REJECTED: "reject",
    RecordOutcome.RELEASED: "release",
    RecordOutcome.LOST: "settle",
}


class OpenTelemetryWorkerObserver(WorkerObserver):
    """An observer that provides traces and metrics for OpenTelemetry.

    `tracer` and `meter` default to those of the global providers.
    """

    def __init__(self, tracer: Tracer | None = None, meter: Meter | None = None) -> None:
        self._tracer = tracer or trace.get_tracer("kshare")
        meter = meter or get_meter("kshare")
        self._duration = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of processing operation.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            "{message}",
            "Number of messages that were delivered to the application.",
        )

    def on_run(self, run: HandlerRun) -> Callable[[], None]:
        deliveries = run.deliveries
        topic = _topic_of(deliveries)
        common = _common(run.group, topic, "process", "process")
        span = self._tracer.start_span(
            f"process {topic}".rstrip(),
            kind=SpanKind.CONSUMER,
            attributes=common
            | {"kshare.handler": run.handler}
            | (
                {"messaging.batch.message_count": len(deliveries)}
                if run.is_batch
                else _coordinates(deliveries[0])
            ),
            links=_links(deliveries),
        )
        batch = _Batch(span, len(deliveries))
        for delivery in deliveries:
            delivery.trace = batch
        token = current.attach(trace.set_span_in_context(span))

        def ended() -> None:
            current.detach(token)
            result = common | _end(span, run)
            self._duration.record(run.seconds, result)
            self._consumed.add(len(deliveries), result)

        return ended

    def on_settled(self, settled: RecordProcessed) -> None:
        """The records of a batch that end in the same way have one span, when all of them have ended."""
        batch = settled.delivery.trace
        settled.delivery.trace = None
        if not isinstance(batch, _Batch):  # it was settled without a run
            self._trace([settled], None)
            return
        batch.settled.append(settled)
        batch.left -= 1
        if batch.left:
            return
        by_outcome: dict[tuple[str, str], list[RecordProcessed]] = {}
        for record in batch.settled:
            by_outcome.setdefault((record.outcome, record.cause), []).append(record)
        for some in by_outcome.values():
            self._trace(some, batch.span)

    def _trace(self, settled: Sequence[RecordProcessed], parent: Span | None) -> None:
        first = settled[0]
        operation = _OPERATIONS.get(first.outcome)
        if operation is None:
            return
        deliveries = [record.delivery for record in settled]
        topic = _topic_of(deliveries)
        attributes = _common(first.delivery.group, topic, operation, "settle")
        attributes |= {"kshare.handler": first.handler, "kshare.outcome": first.outcome.label}
        if len(settled) > 1:
            attributes["messaging.batch.message_count"] = len(settled)
        else:
            attributes |= _coordinates(first.delivery)
        if first.cause:
            attributes["kshare.cause"] = first.cause
        is_failure = first.outcome is RecordOutcome.LOST
        if is_failure:
            attributes["error.type"] = first.cause
        now = time.time_ns()
        span = self._tracer.start_span(
            f"{operation} {topic}".rstrip(),
            context=None if parent is None else trace.set_span_in_context(parent),
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=_links(deliveries),
            start_time=now - round(sum(record.seconds for record in settled) * 1e9),
        )
        if is_failure:
            span.set_status(Status(StatusCode.ERROR, "the lock was lost"))
        span.end(now)


class _Batch:
    """What has become of the records of a run."""

    __slots__ = ("left", "settled", "span")

    def __init__(self, span: Span, left: int) -> None:
        self.span = span
        self.left = left
        self.settled: list[RecordProcessed] = []


class _HeaderGetter(Getter[TraceHeaders]):
    """Reads trace contexts from the headers of a record."""

    def get(self, carrier: TraceHeaders, key: str) -> list[str] | None:
        found = [value for name, value in carrier if name.lower() == key and value is not None]
        return [value.decode(errors="replace") for value in found] or None

    def keys(self, carrier: TraceHeaders) -> list[str]:
        return [name for name, _ in carrier]


_GETTER = _HeaderGetter()


def _links(deliveries: Sequence[Delivery]) -> list[Link]:
    """To the spans that have produced the records, where their headers say so."""
    producers = (
        trace.get_current_span(extract(delivery.headers, current.Context(), _GETTER)).get_span_context()
        for delivery in deliveries
    )
    return [Link(producer) for producer in producers if producer.is_valid]


def _end(span: Span, run: HandlerRun) -> Attributes:
    """End the span. Returns what its metrics say about the result."""
    found: Attributes = {"kshare.result": str(run.result)}
    if run.result is RunResult.FAILED and run.error is not None:
        found["error.type"] = exception_name(run.error)
        span.record_exception(run.error)
        span.set_status(Status(StatusCode.ERROR, str(run.error)))
    span.set_attributes(found)
    span.end()
    return found


def _common(group: str, topic: str, operation: str, kind: str) -> Attributes:
    found: Attributes = {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": group,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
    }
    if topic:
        found["messaging.destination.name"] = topic
    return found


def _topic_of(deliveries: Sequence[Delivery]) -> str:
    """Empty if a batch has records of several topics: joined names would be too many different ones for metrics."""
    topics = {delivery.record.topic for delivery in deliveries}
    return topics.pop() if len(topics) == 1 else ""


def _coordinates(delivery: Delivery) -> Attributes:
    record = delivery.record
    found: Attributes = {
        "messaging.destination.partition.id": str(record.partition),
        "messaging.kafka.offset": record.offset,
        "kshare.attempt": delivery.attempt,
    }
    if record.value is None:
        found["messaging.kafka.message.tombstone"] = True
    return found
