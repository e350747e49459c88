"""Record batches: a span for each field, also of compressed records, and many kinds of damage."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshare.dissect import Dissection, dissect_message, dissect_records
from kshare.protocol import by_name
from kshare.protocol.compression import Compression, compress
from tests.dissect.batch_bytes import Record, batch, varint
from tests.dissect.tiling import assert_tiled, found

_RECORDS = (
    Record(b"k", b"one", (("h", b"x"), ("none", None)), timestamp_delta=5),
    Record(None, None),
    Record(b"", b"three" * 50),
)


def _dissected(data: bytes) -> Dissection:
    dissection = dissect_records(data)
    assert_tiled(dissection, data)
    return dissection


def _reasons(dissection: Dissection) -> list[tuple[str, str]]:
    return [(problem.path, problem.reason) for problem in dissection.problems]


def _values(dissection: Dissection, *paths: str) -> list[Any]:
    values = [found(dissection, path).value for path in paths]
    return [bytes(value) if isinstance(value, memoryview) else value for value in values]


@pytest.mark.parametrize("codec", list(Compression))
def test_records_are_the_same_for_every_codec(codec: Compression) -> None:
    data = batch(*_RECORDS, base_offset=70, codec=codec) + batch(Record(), base_offset=73, codec=codec)
    dissection = _dissected(data)
    assert dissection.problems == []
    first = "records[0].records"
    assert _values(
        dissection,
        "records[0].baseOffset",
        "records[0].recordCount",
        f"{first}[0].key",
        f"{first}[0].value",
        f"{first}[0].headers[0].key",
        f"{first}[0].headers[1].value",
        f"{first}[1].key",
        f"{first}[1].value",
        f"{first}[2].key",
        f"{first}[2].value",
        "records[1].records[0].value",
    ) == [70, 3, b"k", b"one", "h", None, None, None, b"", b"three" * 50, b"v"]
    assert found(dissection, f"{first}[2].offsetDelta").note == "offset 72"
    assert found(dissection, f"{first}[0].timestampDelta").note.startswith(
        "1700000000005, 2023-11-14T22:13:20.005"
    )
    assert found(dissection, "records[0].crc").note == "valid"


def test_decompressed_records_have_their_own_offsets() -> None:
    data = batch(*_RECORDS, codec=Compression.ZSTD)
    packed = found(_dissected(data), "records[0].records")
    assert (packed.kind, packed.end) == ("compressed records", len(data))
    assert packed.inflated is not None
    assert packed.inflated.spans[0].path == "records[0].records[0].length"
    assert packed.inflated.spans[0].offset == 0


def test_wrong_checksum_is_reported_and_dissecting_continues() -> None:
    dissection = _dissected(batch(*_RECORDS, crc=0x12345678))
    [(path, reason)] = _reasons(dissection)
    assert path == "records[0].crc"
    assert reason.startswith("invalid: the bytes make 0x")
    assert _values(dissection, "records[0].records[0].value") == [b"one"]


@pytest.mark.lengthy
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_last_batch_may_be_truncated_at_any_byte(codec: Compression) -> None:
    whole = batch(*_RECORDS, codec=codec)
    for length in range(1, len(whole)):
        dissection = _dissected(whole + whole[:length])
        assert dissection.problems == []
        cut = found(dissection, "records[1]")
        assert cut.kind == "partial batch"
        assert cut.note.startswith(f"cut off after {length} ")


def test_partial_batch_shows_its_complete_records() -> None:
    dissection = _dissected(batch(*_RECORDS)[:-3])
    assert _values(dissection, "records[0].records[0].value") == [b"one"]
    assert found(dissection, "records[0].crc").note == "not checked, the batch is cut off"


def test_other_bytes_are_not_a_partial_batch() -> None:
    dissection = _dissected(b"some bytes that are no records at all")
    assert _reasons(dissection) == [("records[0].magic", "magic 97 is not known")]


def test_control_batch_shows_its_type() -> None:
    commit = Record(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 7))
    dissection = _dissected(batch(commit, attributes=0x30))
    assert (
        found(dissection, "records[0].attributes").note
        == "no compression, create time, transactional, control"
    )
    assert found(dissection, "records[0].records[0].key.type").note == "commit"
    assert _values(dissection, "records[0].records[0].key.version") == [0]


def test_append_time_applies_to_every_record() -> None:
    dissection = _dissected(batch(Record(timestamp_delta=5), attributes=8))
    assert found(dissection, "records[0].attributes").note == "no compression, log append time"
    assert found(dissection, "records[0].records[0].timestampDelta").note.startswith("1700000000000, ")


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_named_and_not_decoded(magic: int) -> None:
    message = struct.pack(">Ibbii", 0, magic, 0, -1, -1)
    old = struct.pack(">qi", 3, len(message)) + message
    dissection = _dissected(old + batch(Record()))
    assert _reasons(dissection) == [
        ("records[0].messages", f"magic {magic}: an old format, from before record batches, not decoded")
    ]
    assert _values(dissection, "records[1].records[0].value") == [b"v"]


_BROKEN = {
    "one record too few": (batch(Record(), count=2), "records[0].records[1].length", "needs 1 byte, 0 left"),
    "a huge count": (batch(count=10**9), "records[0].records", "1000000000 items announced, 0 bytes left"),
    "a negative count": (batch(Record(), count=-1), "records[0].records", "a count of -1"),
    "one record too many": (
        batch(Record(), Record(), count=1),
        "records[0]",
        "8 bytes after the last record",
    ),
    "a negative length": (
        batch(section=varint(-5), count=1),
        "records[0].records[0].length",
        "a length of -5",
    ),
    "a record beyond its batch": (
        batch(section=varint(20) + bytes(6), count=1),
        "records[0].records[0].length",
        "20 bytes announced, 14 of them missing",
    ),
    "a record too short for its fields": (
        batch(section=varint(4) + bytes(8), count=1),
        "records[0].records[0].value.length",
        "needs 1 byte, 0 left",
    ),
    "a record too long for its fields": (
        batch(section=varint(8) + bytes(8), count=1),
        "records[0].records[0]",
        "2 bytes after the headers, inside the record's 8",
    ),
    "a key beyond its record": (
        batch(section=varint(6) + bytes(3) + varint(60) + bytes(80), count=1),
        "records[0].records[0].key",
        "needs 60 bytes, 2 left",
    ),
    "an unknown format": (batch()[:16] + b"\x03" + batch()[17:], "records[0].magic", "magic 3 is not known"),
    "a negative batch length": (
        struct.pack(">qi", 0, -20) + bytes(60),
        "records[0].batchLength",
        "a length of -20",
    ),
    "a batch too short for its header": (
        struct.pack(">qi", 0, 20) + bytes(4) + b"\x02" + bytes(60),
        "records[0].baseTimestamp",
        "needs 8 bytes, 5 left",
    ),
}


@pytest.mark.parametrize(("data", "path", "reason"), _BROKEN.values(), ids=_BROKEN.keys())
def test_damaged_batches(data: bytes, path: str, reason: str) -> None:
    dissection = _dissected(data)
    assert (path, reason) in _reasons(dissection)
    assert dissection.error is None, "damage in a batch must not end the dissection"


def test_damaged_batch_does_not_hide_the_next() -> None:
    dissection = _dissected(batch(Record(), Record(), count=1) + batch(Record(b"next")))
    assert found(dissection, "records[0].unread").length == 8
    assert _values(dissection, "records[1].records[0].key") == [b"next"]


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_compressed_bytes_that_cannot_be_decompressed(codec: Compression) -> None:
    dissection = _dissected(batch(section=b"\x07nonsense" * 3, count=1, codec=codec))
    [(path, reason)] = _reasons(dissection)
    assert path == "records[0].records"
    assert reason
    assert found(dissection, "records[0].records").inflated is None


def test_damage_in_compressed_records() -> None:
    section = compress(Compression.LZ4, Record().written(0) + b"\xff")
    dissection = _dissected(batch(section=section, count=2, codec=Compression.LZ4))
    packed = found(dissection, "records[0].records")
    assert packed.inflated is not None
    assert packed.inflated.error is not None
    assert packed.inflated.error.path == "records[0].records[1].length"
    assert packed.inflated.spans[-1].kind == "unread"
    assert packed.problem.startswith("in the decompressed records: records[0].records[1].length at byte 8")


def test_unknown_codec() -> None:
    dissection = _dissected(batch(section=b"abc", count=1, attributes=6))
    assert found(dissection, "records[0].attributes").note.startswith("unknown compression 6")
    assert [path for path, _ in _reasons(dissection)] == ["records[0].records"]


def _share_fetch_response(records: bytes) -> bytes:
    partition = {
        "partitionIndex": 1,
        "acquiredRecords": [{"firstOffset": 0, "lastOffset": 2, "deliveryCount": 1}],
    }
    form = {"responses": [{"topicId": "A" * 22, "partitions": [partition | {"records": _base64(records)}]}]}
    return by_name.from_json("ShareFetchResponse", 2, form).encode(2)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_damaged_batch_leaves_the_rest_of_the_frame_readable() -> None:
    data = _share_fetch_response(batch(Record()) + batch(Record(), count=2))
    dissection = dissect_message("ShareFetchResponse", 2, data)
    assert_tiled(dissection, data)
    partition = "responses[0].partitions[0]"
    assert dissection.error is None
    assert [path for path, _ in _reasons(dissection)] == [f"{partition}.records[1].records[1].length"]
    assert _values(dissection, f"{partition}.acquiredRecords[0].lastOffset") == [2]
    assert _values(dissection, f"{partition}.records[0].records[0].value") == [b"v"]


def test_records_stay_one_span_on_request() -> None:
    data = _share_fetch_response(batch(*_RECORDS))
    dissection = dissect_message("ShareFetchResponse", 2, data, records=False)
    assert_tiled(dissection, data)
    blob = found(dissection, "responses[0].partitions[0].records")
    assert [part.kind for part in blob.parts] == ["length", "records"]
    assert blob.value == batch(*_RECORDS)


@pytest.mark.lengthy
@settings(max_examples=200, database=None, derandomize=True)
@given(st.data(), st.sampled_from(list(Compression)))
def test_leaf_spans_cover_randomly_damaged_batches(data: st.DataObject, codec: Compression) -> None:
    mutant = bytearray(batch(*_RECORDS, codec=codec) * 2)
    for _ in range(data.draw(st.integers(1, 3))):
        mutant[data.draw(st.integers(0, len(mutant) - 1))] = data.draw(st.integers(0, 255))
    _dissected(bytes(mutant))
