"""Java's share consumer and ours push to the same brokers: what they push is compared, metric by metric."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest

from kshare.engine.consumer_metrics import ConsumerMetrics
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.compression import Compression, compress
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from kshare.protocol.otlp import ResourceMetrics, decode_metrics, encode_metrics
from tests.integration.pushes import (
    BATCH,
    EMBEDDED,
    INTERVAL_MS,
    RACK,
    RECORDS,
    SIZE,
    STAY_S,
    PushedMetric,
    PushedMetrics,
    push_target,
)
from tests.integration.reporting import say, write_report
from tools.kafka.jars import NEWEST_RELEASE

JAVA, OURS = "java-group", "kshare-group"
PREFIX = "org.apache.kafka."
_SHARE = "org.apache.kafka.consumer.share."
FETCHES = f"{_SHARE}fetch.manager."
REPORT = Path("telemetry.md")

MISSING = {
    "consumer.share.application.event": "the queue between the threads of Java's consumer",
    "consumer.share.background.event": "the queue between the threads of Java's consumer",
    "consumer.share.unsent.requests": "the queue between the threads of Java's consumer",
    "consumer.share.time.between.network": "Java's network thread",
    "consumer.io.": "Java's selector",
    "consumer.select.": "Java's selector",
    "consumer.successful.": "authentication",
    "consumer.failed.": "authentication",
    "consumer.reauthentication.": "authentication",
    "kafka.count.count": "the number of Java's own metrics",
}
"""What Java pushes and we don't, by the beginning of the name without prefix, and what it measures."""


class BothPushed(NamedTuple):
    release: str
    java: PushedMetrics
    ours: PushedMetrics
    responses: list[tuple[str, ErrorCode]]
    """To the requests of `ask_and_push`."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("4.1.2", marks=[pytest.mark.kafka, pytest.mark.long]),
        pytest.param(NEWEST_RELEASE, marks=pytest.mark.kafka),
        pytest.param(EMBEDDED, marks=pytest.mark.java),
    ],
)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothPushed]:
    folder = tmp_path_factory.mktemp("classes")
    with push_target(request.param, folder, topic="orders", groups=(JAVA, OURS)) as target:
        pushed = target.run_java(JAVA, "orders"), target.run_ours(OURS, "orders")
        yield BothPushed(request.param, *pushed, anyio.run(ask_and_push, target.bootstrap))


async def ask_and_push(bootstrap: str) -> list[tuple[str, ErrorCode]]:
    """Requests in and out of turn, and invalid ones: what each was, and the error in its response."""
    responses: list[tuple[str, ErrorCode]] = []
    async with Pool(NetSettings.parse(bootstrap, client_id="probe")) as pool:
        first = await pool.ask(None, GetTelemetrySubscriptionsRequest())
        responses.append(("subscribe", ErrorCode(first.error_code)))
        known: dict[str, Any] = {
            "client_instance_id": first.client_instance_id,
            "subscription_id": first.subscription_id,
            "metrics": encode_metrics([ResourceMetrics((), ())]),
        }

        async def subscribe(what: str) -> None:
            response = await pool.ask(None, GetTelemetrySubscriptionsRequest(first.client_instance_id))
            responses.append((what, ErrorCode(response.error_code)))

        async def push(what: str, *, is_in_time: bool = True, **changes: Any) -> None:
            await anyio.sleep(1.1 * INTERVAL_MS / 1000 if is_in_time else 0)
            response = await pool.ask(None, PushTelemetryRequest(**{**known, **changes}))
            responses.append((what, ErrorCode(response.error_code)))

        await subscribe("subscribe too soon")
        await push("push at once", is_in_time=False)
        await push("push too soon", is_in_time=False)
        await push("push", compression_type=4, metrics=compress(Compression.ZSTD, known["metrics"]))
        await push("push for an unknown subscription", subscription_id=first.subscription_id ^ 1)
        await subscribe("subscribe after that")
        await push("push with an unknown compression", compression_type=9)
        await push("push too much", metrics=bytes(first.telemetry_max_bytes + 1))
        await push("push what isn't compressed", compression_type=4, metrics=b"garbage")
        await push("push without an id", client_instance_id=bytes(16))
        await push("push before terminating", is_in_time=False)
        await push("push and terminate", is_in_time=False, terminating=True)
        await push("push after that")
    return responses


def reason_missing(name: str) -> str | None:
    return next((why for start, why in MISSING.items() if name.removeprefix(PREFIX).startswith(start)), None)


def test_every_metric_of_ours_is_one_of_javas(both: BothPushed) -> None:
    """The same name, kind and attributes."""
    assert both.ours.metrics
    for name, metric in both.ours.metrics.items():
        assert name in both.java.metrics, name
        assert metric[:2] == both.java.metrics[name][:2], name


def test_every_metric_of_java_is_ours_or_has_a_reason_to_be_missing(both: BothPushed) -> None:
    missing = both.java.metrics.keys() - both.ours.metrics.keys()
    assert [name for name in missing if reason_missing(name) is None] == []


def test_the_totals_are_those_of_the_workload(both: BothPushed) -> None:
    for name in ("records.consumed.total", "acknowledgements.send.total"):
        for pushed in (both.java, both.ours):
            assert pushed.metrics[f"{FETCHES}{name}"].value == RECORDS, name
    for pushed in (both.java, both.ours):
        assert pushed.metrics[f"{FETCHES}acknowledgements.error.total"].value == 0
        assert pushed.has_terminated
    rebalances = f"{_SHARE}coordinator.rebalance.total"
    assert both.ours.metrics[rebalances].value == both.java.metrics[rebalances].value >= 1


def test_the_resource_has_the_same_attributes(both: BothPushed) -> None:
    assert both.java.attributes.keys() == both.ours.attributes.keys()
    for pushed, group in ((both.java, JAVA), (both.ours, OURS)):
        assert pushed.attributes["group_id"] == group
        assert pushed.attributes["client_rack"] == RACK
        assert len(pushed.attributes["group_member_id"]) == 22


def test_brokers_respond_as_kafka_does(both: BothPushed) -> None:
    assert both.responses == [
        ("subscribe", ErrorCode.NONE),
        ("subscribe too soon", ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        ("push at once", ErrorCode.NONE),
        ("push too soon", ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        ("push", ErrorCode.NONE),
        ("push for an unknown subscription", ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ("subscribe after that", ErrorCode.NONE),
        ("push with an unknown compression", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ("push too much", ErrorCode.TELEMETRY_TOO_LARGE),
        ("push what isn't compressed", ErrorCode.INVALID_RECORD),
        ("push without an id", ErrorCode.INVALID_REQUEST),
        ("push before terminating", ErrorCode.NONE),
        ("push and terminate", ErrorCode.NONE),
        ("push after that", ErrorCode.INVALID_REQUEST),
    ]


@pytest.mark.long
def test_the_report(both: BothPushed, capsys: pytest.CaptureFixture[str]) -> None:
    if both.release == NEWEST_RELEASE:
        report = table(both)
        say(capsys, report)
        write_report(
            REPORT, "Client telemetry: what Java's share consumer pushes, and what kshare pushes", report
        )


def table(both: BothPushed) -> str:
    java, ours = both.java, both.ours
    client_attributes = ", ".join(f"`{key}`" for key in sorted(ours.attributes))
    shared = sorted(java.metrics.keys() & ours.metrics.keys())
    left_out = sorted(java.metrics.keys() - ours.metrics.keys())
    rows = [
        f"| `{name.removeprefix(PREFIX)}` | {kind_of(java.metrics[name])} "
        f"| {value_of(java.metrics[name])} | {value_of(ours.metrics[name])} |"
        for name in shared
    ]
    return "\n".join(
        [
            f"Each consumer accepted {RECORDS:,} records of {SIZE} bytes in batches of {BATCH}, from two partitions, "
            f"stayed for {STAY_S} s and was closed. All metrics were subscribed to, every {INTERVAL_MS} ms; Java "
            f"pushed {java.pushes} times, kshare {ours.pushes} times, the last time with the terminating flag.",
            "",
            "Names begin with `org.apache.kafka.`. Values of sums are the total of all pushes, others are of the last "
            "push before the terminating one. Metrics with the attribute `node_id` have one value for each broker: "
            "the table has their sum (of means and maximums the highest), and in brackets how many there are. Java "
            "counts bootstrap server and coordinator as separate nodes. Durations are milliseconds. Both clients "
            f"describe themselves with the same attributes: {client_attributes}.",
            "",
            "| metric | kind | Java | kshare |",
            "|---|---|---|---|",
            *rows,
            "",
            "Differences that aren't chance:",
            "",
            "- The clients decide differently when to fetch and how much, so they need other numbers of requests.",
            "- `bytes.consumed` and `fetch.size` are bytes of records in Java, and of record batches as they were "
            "received in kshare, which doesn't look at records for that.",
            '- A "poll" of kshare is a loop that asks for its next batch.',
            "- Java sends NaN for means and maximums without values. kshare leaves them out.",
            "",
            f"Java pushes {len(left_out)} metrics that kshare doesn't:",
            "",
            "| metric | what it measures |",
            "|---|---|",
            *(f"| `{name.removeprefix(PREFIX)}` | {reason_missing(name) or ''} |" for name in left_out),
        ]
    )


def value_of(metric: PushedMetric) -> str:
    return f"{metric.value:,.6g}" + (f" ({metric.nodes})" if metric.nodes > 1 else "")


def kind_of(metric: PushedMetric) -> str:
    return metric.kind + "".join(f", {key}" for key in metric.attributes)


@pytest.mark.lengthy
def test_an_idle_consumer_names_only_metrics_of_java(both: BothPushed) -> None:
    data = ConsumerMetrics().collect((), lambda name: True, lambda peer: 1, is_delta=True)
    (idle,) = decode_metrics(data)
    assert {metric.name for metric in idle.metrics} <= both.java.metrics.keys()
