"""Metrics in OpenTelemetry's protocol (OTLP): the message MetricsData of PushTelemetry, as far as clients use it.

Written by hand, because it is a handful of protobuf messages. Gauges and sums are read; the points of other kinds
(histograms, summaries) are left out, as Kafka's clients send none.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from kshare.errors import DecodeError

_Attributes: TypeAlias = tuple[tuple[str, str], ...]


class Temporality(enum.IntEnum):
    """What the value of a sum counts from: the previous push (delta), or its beginning (cumulative)."""

    DELTA = 1
    CUMULATIVE = 2


class OtlpPoint(NamedTuple):
    """One value of a metric."""

    value: int | float
    time_ns: int
    """Nanoseconds since 1970."""
    start_ns: int = 0
    """Since when a sum has been counted. 0: unknown."""
    attributes: _Attributes = ()


class OtlpMetric(NamedTuple):
    """A metric with its values."""

    name: str
    points: tuple[OtlpPoint, ...]
    temporality: Temporality | None = None
    """Only sums have one. None: a gauge."""
    is_monotonic: bool = False


class ResourceMetrics(NamedTuple):
    """Metrics of one resource, such as one client."""

    attributes: _Attributes
    metrics: tuple[OtlpMetric, ...]


_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LAST_BYTE_OF_VARINT = 10
_INT64 = struct.Struct("<q")
_UINT64 = struct.Struct("<Q")
_DOUBLE = struct.Struct("<d")

# Numbers of fields, by message.
_RESOURCE_METRICS = 1
_RESOURCE, _SCOPE_METRICS = 1, 2
_RESOURCE_ATTRIBUTES = 1
_METRICS = 2
_NAME, _GAUGE, _SUM = 1, 5, 7
_POINTS, _TEMPORALITY, _IS_MONOTONIC = 1, 2, 3
_START, _TIME, _AS_DOUBLE, _AS_INT, _POINT_ATTRIBUTES = 2, 3, 4, 6, 7
_KEY, _VALUE = 1, 2
_MOST_FIELDS = 50_000
"""In all messages of a push together. Kafka's clients send a few thousand."""
_STRING_VALUE, _BOOL_VALUE, _INT_VALUE, _DOUBLE_VALUE = 1, 2, 3, 4


def encode_metrics(resources: Iterable[ResourceMetrics]) -> bytes:
    """The message MetricsData."""
    return b"".join(_field(_RESOURCE_METRICS, _resource_metrics(each)) for each in resources)


def decode_metrics(data: bytes | memoryview) -> list[ResourceMetrics]:
    """Read the message MetricsData. Raises DecodeError if the bytes are no such message, or have too many fields."""
    fields = _Fields(_MOST_FIELDS)
    try:
        return [
            _read_resource_metrics(_bytes(value), fields)
            for number, value in fields.of(memoryview(data))
            if number == _RESOURCE_METRICS
        ]
    except (ValueError, struct.error) as broken:
        raise DecodeError("metrics", 0, f"not OTLP's MetricsData: {broken}") from broken


# --- encoding


def _resource_metrics(each: ResourceMetrics) -> bytes:
    resource = b"".join(_field(_RESOURCE_ATTRIBUTES, _key_value(*pair)) for pair in each.attributes)
    metrics = b"".join(_field(_METRICS, _metric(metric)) for metric in each.metrics)
    return _field(_RESOURCE, resource) + _field(_SCOPE_METRICS, metrics)


def _metric(metric: OtlpMetric) -> bytes:
    points = b"".join(_field(_POINTS, _point(point)) for point in metric.points)
    name = _field(_NAME, metric.name.encode())
    if metric.temporality is None:
        return name + _field(_GAUGE, points)
    points += _tag(_TEMPORALITY, _VARINT) + _varint(metric.temporality)
    if metric.is_monotonic:
        points += _tag(_IS_MONOTONIC, _VARINT) + _varint(1)
    return name + _field(_SUM, points)


def _point(point: OtlpPoint) -> bytes:
    out = b""
    if point.start_ns:
        out += _tag(_START, _FIXED64) + _UINT64.pack(point.start_ns)
    out += _tag(_TIME, _FIXED64) + _UINT64.pack(point.time_ns)
    if isinstance(point.value, float):
        out += _tag(_AS_DOUBLE, _FIXED64) + _DOUBLE.pack(point.value)
    else:
        out += _tag(_AS_INT, _FIXED64) + _INT64.pack(point.value)
    return out + b"".join(_field(_POINT_ATTRIBUTES, _key_value(*pair)) for pair in point.attributes)


def _key_value(key: str, value: str) -> bytes:
    return _field(_KEY, key.encode()) + _field(_VALUE, _field(_STRING_VALUE, value.encode()))


def _field(number: int, content: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(content)) + content


def _tag(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# --- decoding


class _Fields:
    """The fields of messages, all of which share a limit: of two bytes each, values of a hundred are made."""

    def __init__(self, most: int) -> None:
        self._left = most

    def of(self, view: memoryview) -> Iterator[tuple[int, int | memoryview]]:
        for field in _fields(view):
            self._left -= 1
            if self._left < 0:
                raise ValueError(f"more than {_MOST_FIELDS:,} fields")
            yield field


def _fields(view: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message: numbers for varints, bytes for everything else."""
    position = 0
    while position < len(view):
        tag, position = _read_varint(view, position)
        wire_type = tag & 7
        if wire_type == _VARINT:
            value, position = _read_varint(view, position)
            yield tag >> 3, value
            continue
        if wire_type == _BYTES:
            size, position = _read_varint(view, position)
        elif wire_type in (_FIXED64, _FIXED32):
            size = 8 if wire_type == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire_type} isn't used")
        if size > len(view) - position:
            raise ValueError(f"a field of {size} bytes, {len(view) - position} are left")
        yield tag >> 3, view[position : position + size]
        position += size


def _read_varint(view: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(view[position : position + _LAST_BYTE_OF_VARINT]):
        value |= (byte & 0x7F) << 7 * index
        if byte <= 0x7F:
            return value, position + index + 1
    raise ValueError("a number is cut off")


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a number in place of a message")
    return value


def _number(value: int | memoryview) -> int:
    if not isinstance(value, int):
        raise ValueError("a message in place of a number")
    return value


def _text(value: int | memoryview) -> str:
    return bytes(_bytes(value)).decode()


def _read_resource_metrics(view: memoryview, fields: _Fields) -> ResourceMetrics:
    attributes: list[tuple[str, str]] = []
    metrics: list[OtlpMetric] = []
    for number, value in fields.of(view):
        if number == _RESOURCE:
            attributes += _read_attributes(_bytes(value), _RESOURCE_ATTRIBUTES, fields)
        elif number == _SCOPE_METRICS:
            metrics += [
                _read_metric(_bytes(each), fields)
                for field, each in fields.of(_bytes(value))
                if field == _METRICS
            ]
    return ResourceMetrics(tuple(attributes), tuple(metrics))


def _read_metric(view: memoryview, fields: _Fields) -> OtlpMetric:
    name = ""
    points: list[OtlpPoint] = []
    temporality: Temporality | None = None
    is_monotonic = False
    for number, value in fields.of(view):
        if number == _NAME:
            name = _text(value)
        elif number in (_GAUGE, _SUM):
            for field, content in fields.of(_bytes(value)):
                if field == _POINTS:
                    points.append(_read_point(_bytes(content), fields))
                elif number == _SUM and field == _TEMPORALITY:
                    temporality = Temporality(_number(content))
                elif number == _SUM and field == _IS_MONOTONIC:
                    is_monotonic = bool(_number(content))
    return OtlpMetric(name, tuple(points), temporality, is_monotonic)


def _read_point(view: memoryview, fields: _Fields) -> OtlpPoint:
    result: int | float = 0
    start_ns = time_ns = 0
    for number, value in fields.of(view):
        if number == _START:
            (start_ns,) = _UINT64.unpack(_bytes(value))
        elif number == _TIME:
            (time_ns,) = _UINT64.unpack(_bytes(value))
        elif number == _AS_DOUBLE:
            (result,) = _DOUBLE.unpack(_bytes(value))
        elif number == _AS_INT:
            (result,) = _INT64.unpack(_bytes(value))
    return OtlpPoint(result, time_ns, start_ns, tuple(_read_attributes(view, _POINT_ATTRIBUTES, fields)))


def _read_attributes(view: memoryview, field: int, fields: _Fields) -> Iterator[tuple[str, str]]:
    for number, value in fields.of(view):
        if number == field:
            key = text = ""
            for part, content in fields.of(_bytes(value)):
                if part == _KEY:
                    key = _text(content)
                elif part == _VALUE:
                    text = _read_value(_bytes(content), fields)
            yield key, text


def _read_value(view: memoryview, fields: _Fields) -> str:
    """An attribute's value as text, whatever its type. Lists and bytes, which Kafka's clients don't use, are empty."""
    for number, value in fields.of(view):
        if number == _STRING_VALUE:
            return _text(value)
        if number == _BOOL_VALUE:
            return "true" if _number(value) else "false"
        if number == _INT_VALUE:
            (signed,) = _INT64.unpack(_UINT64.pack(_number(value)))
            return str(signed)
        if number == _DOUBLE_VALUE:
            return str(_DOUBLE.unpack(_bytes(value))[0])
    return ""
