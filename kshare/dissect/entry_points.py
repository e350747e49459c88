"""Entry points of the dissector: bytes in, a `Dissection` out. Malformed bytes never raise; they are reported in it.

Decides which header a frame has, and which message follows it. If a message name or API key that the caller passes
doesn't exist, KeyError is raised. Each takes a limit, at which the rest of the bytes stays one span.
Without one, it is `DissectionLimit.usual`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from construct import Container

from kshare.protocol.frames import API_VERSIONS, request_header_version, response_header_version

from .batches import read_batches
from .constructs import INTEGERS, Named, SpanConstruct
from .fields import codes, index
from .layout import layout
from .span_reader import BreakError, SpanReader, TooManySpansError, amount
from .spans import ByteSpan, Dissection, DissectionLimit
from .table import Message, message
from .value_notes import explain

Buffer = bytes | bytearray | memoryview

_UNSUPPORTED_VERSION = 35
_SIZE = Named("size", SpanConstruct(INTEGERS["int32"], "size", "Bytes of the frame after this field."))


def dissect_request(
    frame: Buffer, *, is_sized: bool = True, records: bool = True, limit: DissectionLimit | None = None
) -> Dissection:
    """Dissects a request, whose header names API and version. Without `records`, record batches stay one span."""
    reading = _Reading(frame, "request", records=records, limit=limit)
    return reading.run(lambda: _request(reading, is_sized))


def dissect_response(
    frame: Buffer,
    api_key: int,
    version: int,
    *,
    is_sized: bool = True,
    records: bool = True,
    limit: DissectionLimit | None = None,
) -> Dissection:
    """Dissects the response to a request of that API and version."""
    table = message(index.RESPONSES[api_key])
    reading = _Reading(frame, "response", records=records, limit=limit)
    return reading.run(lambda: _response(reading, table, version, is_sized))


def dissect_message(
    name: str, version: int, data: Buffer, *, records: bool = True, limit: DissectionLimit | None = None
) -> Dissection:
    """Dissects only the body of a message, without size, header or version."""
    table = message(name)
    reading = _Reading(data, "message", records=records, limit=limit)
    return reading.run(lambda: reading.body(table, version, "version"))


def dissect_versioned(name: str, data: Buffer, *, limit: DissectionLimit | None = None) -> Dissection:
    """Dissects keys and values of coordinator records, and consumer protocol data: they begin with a 16-bit number.

    In a key it is the record type; elsewhere it is the version of the rest.
    """
    table = message(name)
    reading = _Reading(data, "message", records=True, limit=limit)
    return reading.run(lambda: _versioned(reading, table))


def dissect_records(data: Buffer, *, limit: DissectionLimit | None = None) -> Dissection:
    """Dissects consecutive record batches, as in a `records` field or a log segment: `records[0].baseOffset` ..."""
    reading = _Reading(data, "records", records=True, limit=limit)
    return reading.run(lambda: read_batches(reading.reader, reading.context, "records", reading.reader.end))


class _Reading:
    """A dissection in progress."""

    def __init__(self, data: Buffer, kind: str, *, records: bool, limit: DissectionLimit | None) -> None:
        self.reader = SpanReader(memoryview(data).cast("B"), root_kind=kind, limit=limit)
        self.context = Container(records=records)
        self.result = Dissection(self.reader.root, problems=self.reader.problems)

    def run(self, read: Callable[[], None]) -> Dissection:
        reader = self.reader
        try:
            read()
            if reader.position < len(reader.data):
                self.result.has_surplus = True
                surplus = amount(len(reader.data) - reader.position, "byte")
                raise BreakError("unread", reader.position, f"{surplus} after the end")
        except BreakError as broken:
            reader.give_up(1, broken, "unread", len(reader.data))
            self.result.error = broken.problem
        except TooManySpansError:
            self.result.error = reader.stop_at_limit("unread").problem
            self.result.is_cut = True
        return self.result

    def refusal(self, path: str, reason: str) -> BreakError:
        """The error for stopping here because of a value that was read before, at `path`."""
        span = self.result.find(path)
        return BreakError(path, span.offset if span else self.reader.position, reason)

    def parse(self, construct: Any, path: str = "") -> Any:
        return construct._parsereport(self.reader, self.context, path)

    def size(self) -> None:
        size = self.parse(_SIZE)
        available = self.reader.left
        if size < 0:
            raise BreakError("size", 0, f"a size of {size}")
        if size > available:
            self.reader.shortage = f"the frame's size is {size} bytes, {available} arrived"
        self.reader.end = self.reader.position + min(size, available)

    def end_of_frame(self) -> None:
        """Fails if the message is complete, but the frame's size is larger."""
        if self.reader.shortage and not self.reader.left:
            raise BreakError("size", 0, self.reader.shortage)

    def header(self, name: str, version: int) -> ByteSpan:
        parts = self.reader.root.parts
        before = len(parts)
        try:
            self.parse(layout(name, version), "header")
        finally:
            self.result.header = parts[before] if len(parts) > before else None
        return parts[before]

    def body(self, table: Message, version: int, version_path: str) -> None:
        self.result.message, self.result.version = table.name, version
        if not table.has(version):
            first, last = table.versions
            reason = f"{table.name} has no version {version}: {first} to {last} are known"
            raise self.refusal(version_path, reason)
        parts = self.reader.root.parts
        before = len(parts)
        try:
            self.parse(layout(table.name, version))
        finally:
            self.result.body = parts[before] if len(parts) > before else None


def _request(reading: _Reading, is_sized: bool) -> None:
    if is_sized:
        reading.size()
    reader = reading.reader
    peek = reader.data[reader.position : reader.end]
    api_key, version = (int.from_bytes(peek[i : i + 2], "big", signed=True) for i in (0, 2))
    name = index.REQUESTS.get(api_key)
    table = message(name) if name else None
    # If any version is flexible, future ones will be, too.
    is_flexible = table is not None and table.flexible[0] <= min(version, table.flexible[1])
    reading.header("RequestHeader", request_header_version(api_key, version, is_flexible))
    if table is None:
        api = codes.APIS.get(api_key)
        reason = f"API {api_key} ({api}) has no schema here" if api else f"there is no API {api_key}"
        raise reading.refusal("header.requestApiKey", reason)
    reading.body(table, version, "header.requestApiVersion")
    reading.end_of_frame()


def _response(reading: _Reading, table: Message, version: int, is_sized: bool) -> None:
    if is_sized:
        reading.size()
    api_key = table.api_key
    assert api_key is not None
    is_flexible = table.flexible[0] <= min(version, table.flexible[1])
    reading.header("ResponseHeader", response_header_version(api_key, is_flexible))
    reader = reading.reader
    if api_key == API_VERSIONS:
        # If a broker doesn't know the request's version, it responds in version 0.
        error = int.from_bytes(reader.data[reader.position : reader.position + 2], "big")
        version = 0 if error == _UNSUPPORTED_VERSION else version
    reading.body(table, version, "version")
    reading.end_of_frame()


def _versioned(reading: _Reading, table: Message) -> None:
    is_key = table.kind == "coordinator-key"
    name = "type" if is_key else "version"
    about = "The type of the record that this is the key of." if is_key else "Version of the rest."
    number = reading.parse(
        Named(name, SpanConstruct(INTEGERS["int16"], "int16", about, explain(name, "int16")))
    )
    if is_key and number != table.api_key:
        raise reading.refusal("type", f"record type {number}: {table.name} has {table.api_key}")
    reading.body(table, 0 if is_key else number, "version")
