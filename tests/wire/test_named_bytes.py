"""Every byte of a dissection has a span that names it."""

from __future__ import annotations

import pytest

from kshare.dissect import DissectionLimit, dissect_records, dissect_request, dissect_response
from kshare.protocol.compression import Compression
from kshare.wire.internal_records import explain_records
from kshare.wire.named_bytes import named_bytes
from tests.cli import frames
from tests.wire.covers import assert_complete, span_at, span_with


def test_each_byte_is_named() -> None:
    frame = frames.fetch_request()
    named = named_bytes(dissect_request(frame))
    assert_complete(named)
    assert named.title == "ShareFetchRequest v2"
    assert [span_at(named, at).label for at in (0, 3, 4, 6)] == [
        "size",
        "size",
        "requestApiKey",
        "requestApiVersion",
    ]
    client = span_at(named, 12)
    assert (client.label, client.path, client.line, client.depth) == (
        "clientId.length",
        "header.clientId.length",
        [],
        None,
    ) or client


def test_spans_have_values_and_lines() -> None:
    named = named_bytes(dissect_response(frames.fetch_response(), 78, 2))
    assert_complete(named)
    key = span_with(named, "responses[0].partitions[0].records[0].records[0].value")
    assert (key.value, key.kind) == ('"order 0"', "bytes")
    assert "".join(text for text, _ in key.line) == 'value "order 0"'
    count = span_with(named, "responses[0].partitions[0].acquiredRecords")
    assert [text for text, _ in count.line] == ["acquiredRecords", " (1)"]


def test_keys_of_internal_topics_are_named_in_place_and_decompressed_records_in_a_buffer() -> None:
    segment = frames.state_segment()
    reading = dissect_records(segment)
    explain_records(reading, DissectionLimit.usual())
    named = named_bytes(reading)
    assert_complete(named)
    assert [buffer.packed_in is None for buffer in named.buffers] == [True, False]
    packed = named.buffers[1].packed_in
    assert packed is not None
    assert named.spans[packed].kind == "compressed records"
    group = span_with(named, "records[0].records[0].key.groupId")
    assert segment[group.offset : group.end].endswith(b"orders")
    assert span_at(named, group.end - 1).path == group.path
    topic = span_with(named, "records[1].records[0].key.topicId")
    assert named.buffers[1].data[topic.offset : topic.end] == frames.TOPIC_ID


@pytest.mark.parametrize("compression", Compression)
def test_problems_are_listed_and_marked(compression: Compression) -> None:
    data = bytearray(frames.batch(compression=compression))
    data[-1] ^= 1
    named = named_bytes(dissect_records(data))
    assert_complete(named)
    assert (named.problems[0].path, named.problems[0].offset) == ("records[0].crc", 17)
    checksum = span_at(named, 17)
    assert checksum.problem.startswith("invalid: the bytes make")
    assert checksum.style == "error"
