"""OTLP's MetricsData: read by OpenTelemetry's own classes, and written by them."""

from __future__ import annotations

import contextlib
import math

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ScopeMetrics,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics as TheirResourceMetrics
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from kshare.errors import DecodeError
from kshare.protocol.otlp import (
    OtlpMetric,
    OtlpPoint,
    ResourceMetrics,
    Temporality,
    decode_metrics,
    encode_metrics,
)

T0, T1 = 1_795_547_000_000_000_000, 1_795_547_002_000_000_000
OURS = [
    ResourceMetrics(
        (("group_id", "grüße"), ("client_rack", "")),
        (
            OtlpMetric("gauge", (OtlpPoint(1.5, T1), OtlpPoint(-7, T1, attributes=(("node_id", "node-1"),)))),
            OtlpMetric("total", (OtlpPoint(1000.0, T1, T0),), Temporality.DELTA, is_monotonic=True),
            OtlpMetric("sum", (OtlpPoint(2**62, T1, T0),), Temporality.CUMULATIVE),
        ),
    ),
    ResourceMetrics((), ()),
]


def test_our_bytes_are_what_opentelemetry_reads() -> None:
    read = MetricsData.FromString(encode_metrics(OURS))
    first, second = read.resource_metrics
    assert {each.key: each.value.string_value for each in first.resource.attributes} == dict(
        OURS[0].attributes
    )
    assert not second.resource.attributes
    gauge, total, plain = first.scope_metrics[0].metrics
    assert [point.as_double or point.as_int for point in gauge.gauge.data_points] == [1.5, -7]
    assert gauge.gauge.data_points[1].attributes[0].value.string_value == "node-1"
    (point,) = total.sum.data_points
    assert (point.as_double, point.start_time_unix_nano, point.time_unix_nano) == (1000.0, T0, T1)
    assert total.sum.is_monotonic
    assert total.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    assert plain.sum.data_points[0].as_int == 2**62
    assert not plain.sum.is_monotonic
    assert not read.ListFields()[1:]


def test_what_was_encoded_is_decoded() -> None:
    assert decode_metrics(encode_metrics(OURS)) == OURS
    assert decode_metrics(b"") == []


def test_what_opentelemetry_writes_is_decoded() -> None:
    values = [
        AnyValue(string_value="text"),
        AnyValue(bool_value=True),
        AnyValue(int_value=-3),
        AnyValue(double_value=0.5),
    ]
    theirs = MetricsData(
        resource_metrics=[
            TheirResourceMetrics(
                resource=Resource(attributes=[KeyValue(key=f"a{n}", value=v) for n, v in enumerate(values)]),
                scope_metrics=[
                    ScopeMetrics(
                        metrics=[
                            Metric(
                                name="nan", gauge=Gauge(data_points=[NumberDataPoint(as_double=math.nan)])
                            ),
                            Metric(name="other", histogram=Histogram(data_points=[HistogramDataPoint()])),
                        ],
                        schema_url="ignored",
                    )
                ],
            )
        ]
    )
    (found,) = decode_metrics(theirs.SerializeToString())
    assert found.attributes == (("a0", "text"), ("a1", "true"), ("a2", "-3"), ("a3", "0.5"))
    assert math.isnan(found.metrics[0].points[0].value)
    assert found.metrics[1] == OtlpMetric("other", ())


def test_damaged_bytes_are_a_decode_error_or_another_message() -> None:
    good = encode_metrics(OURS)
    for size in range(len(good)):
        try:
            decode_metrics(good[:size])
        except DecodeError as error:
            assert "MetricsData" in str(error)
    for position in range(len(good)):
        for bit in range(8):
            damaged = bytearray(good)
            damaged[position] ^= 1 << bit
            with contextlib.suppress(DecodeError):
                decode_metrics(bytes(damaged))


@pytest.mark.parametrize(
    "data", [b"\x0a", b"\x0a\x05abc", b"\x0b", b"\x80" * 11, b"\x08\x01\x0f", b"\x0a\x02\x08"]
)
def test_invalid_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError, match="MetricsData"):
        decode_metrics(data)


def test_a_push_cannot_have_millions_of_fields() -> None:
    """Two bytes make a point, for which Python needs a hundred: 16 MB became 668 MB."""

    def field(number: int, content: bytes) -> bytes:
        size, out = len(content), bytearray([number << 3 | 2])
        while size > 0x7F:
            out.append(size & 0x7F | 0x80)
            size >>= 7
        return bytes(out) + bytes([size]) + content

    gauge = field(5, field(1, b"") * 1_000_000)
    with pytest.raises(DecodeError, match="more than 50,000 fields"):
        decode_metrics(field(1, field(2, field(2, gauge))))
