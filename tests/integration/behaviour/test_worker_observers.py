"""A worker's observers against every broker: records that fail are moved, and become dead letters."""

from __future__ import annotations

import anyio
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from kshare import Producer
from kshare.worker import Retry, RetryTopics, Worker
from kshare.worker.opentelemetry import OpenTelemetryWorkerObserver
from kshare.worker.prometheus import PrometheusWorkerObserver
from tests.helpers.committed import records_in
from tests.helpers.running_worker import get
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S

pytestmark = [pytest.mark.kafka, pytest.mark.anyio]

TRACE, SPAN = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
PARENT = ("traceparent", f"00-{TRACE:032x}-{SPAN:016x}-01".encode())


def name_and_links(span: ReadableSpan) -> tuple[str, list[int]]:
    return span.name, [link.context.span_id for link in span.links]


async def test_a_record_can_be_followed_into_the_dead_letters(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    topic, dead = queue.topic, f"{queue.topic}-dead"
    spans, tracers, registry = InMemorySpanExporter(), TracerProvider(), CollectorRegistry()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    worker = Worker(
        queue.broker.bootstrap,
        group=queue.group,
        retry=Retry(attempts=2, delay=2.0),
        retry_topics=RetryTopics(tiers=(2.0,)),
        hold_up_to=1.0,
        dead_letters=dead,
        http="127.0.0.1:0",
    )
    worker.observe(OpenTelemetryWorkerObserver(tracers.get_tracer("test")))
    worker.observe(PrometheusWorkerObserver(registry))

    @worker.handler(topic)
    async def process(value: str) -> None:
        if value == "bad":
            raise ValueError

    async with Producer(queue.broker.bootstrap) as producer:
        await producer.send(topic, b"good", headers=[PARENT])
        await producer.send(topic, b"bad", headers=[PARENT])
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            while len(spans.get_finished_spans()) < 6:
                await anyio.sleep(0.02)
            status, page = await get(worker.http_port, "/metrics")
            worker.stop()
    tracers.shutdown()
    later = f"{topic}.retry.2s"
    names = [f"process {topic}", f"accept {topic}"] * 2 + [f"process {later}", f"reject {later}"]
    found = [name_and_links(span) for span in spans.get_finished_spans()]
    assert sorted(found) == sorted((name, [SPAN]) for name in names)
    (letter,) = await records_in(queue.broker.bootstrap, dead)
    assert dict(letter.headers)["traceparent"] == PARENT[1]
    assert status == 200
    for outcome in ("accepted", "moved", "dead"):
        labels = f'group="{queue.group}",handler="process",outcome="{outcome}",topic="{topic}"'
        assert f"kshare_worker_records_total{{{labels}}} 1.0" in page
