"""Single mistakes in messages: each is reported at its position, and dissecting continues where possible."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshare.dissect import (
    Dissection,
    dissect_message,
    dissect_records,
    dissect_request,
    dissect_response,
    dissect_versioned,
    dissection_json,
)
from kshare.protocol import by_name
from tests.dissect.tiling import assert_tiled, found

_GROUP = "ShareGroupMetadataKey"


def _describe(*groups: str) -> bytes:
    """ShareGroupDescribeRequest v1: a compact array of compact strings, a bool, tags."""
    return by_name.from_json("ShareGroupDescribeRequest", 1, {"groupIds": list(groups)}).encode(1)


def _dissected(data: bytes) -> Dissection:
    dissection = dissect_message("ShareGroupDescribeRequest", 1, data)
    assert_tiled(dissection, data)
    return dissection


def test_invalid_utf8_is_shown_escaped_and_dissecting_continues() -> None:
    data = _describe("g!", "h").replace(b"!", b"\xff")
    dissection = _dissected(data)
    assert dissection.error is None
    assert [(p.path, p.reason) for p in dissection.problems] == [("groupIds[0]", "not UTF-8")]
    assert dissection_json(dissection)["groupIds"] == ["g\\xff", "h"]


def test_null_in_a_field_that_is_not_nullable() -> None:
    data = _describe("g").replace(b"\x02g", b"\x00")
    dissection = _dissected(data)
    assert dissection.error is None
    assert [p.path for p in dissection.problems] == ["groupIds[0].length"]
    assert dissection_json(dissection)["groupIds"] == [None]


def test_count_larger_than_the_remaining_bytes() -> None:
    data = b"\xff\xff\xff\xff\x0f" + _describe("g")[1:]
    dissection = _dissected(data)
    assert str(dissection.error) == "groupIds at byte 5: 4294967294 items announced, 4 bytes left"
    assert [(s.path, s.length) for s in dissection.spans] == [("groupIds.count", 5), ("unread", 4)]


@pytest.mark.parametrize(
    ("varint", "reason"),
    [
        (b"\xff\xff\xff\xff\xff\x01", "a varint of more than 5 bytes"),
        (b"\xff\xff\xff\xff\x1f", "a varint of more than 32 bits"),
        (b"\xff\xff", "needs 3 bytes, 2 left"),
    ],
)
def test_invalid_varints(varint: bytes, reason: str) -> None:
    dissection = _dissected(varint)
    assert dissection.error is not None
    assert (dissection.error.path, dissection.error.offset, dissection.error.reason) == (
        "groupIds.count",
        0,
        reason,
    )


def test_length_below_minus_1() -> None:
    data = b"\x00\x0b\xff\xfe"
    dissection = dissect_versioned(_GROUP, data)
    assert_tiled(dissection, data)
    assert str(dissection.error) == "groupId.length at byte 2: a length of -2"


def test_surplus_bytes() -> None:
    data = _describe("g") + b"more"
    dissection = _dissected(data)
    assert str(dissection.error) == f"unread at byte {len(data) - 4}: 4 bytes after the end"
    assert dissection_json(dissection)["groupIds"] == ["g"]


def _tagged(*tags: bytes) -> bytes:
    return _describe("g")[:-1] + bytes([len(tags)]) + b"".join(tags)


def test_unknown_tags_are_spans_and_left_out_of_json() -> None:
    data = _tagged(b"\x05\x03abc", b"\x64\x00")
    dissection = _dissected(data)
    assert dissection.problems == []
    assert bytes(found(dissection, "tags[0].content").raw) == b"abc"
    assert found(dissection, "tags[1].number").value == 100
    assert dissection_json(dissection) == dissection_json(_dissected(_describe("g")))


def test_tags_that_are_not_ascending() -> None:
    error = _dissected(_tagged(b"\x05\x00", b"\x05\x00")).error
    assert error is not None
    assert (error.path, error.reason) == ("tags[1].number", "tag 5 after tag 5: tags must ascend")


def _finalized_epoch(size: int, content: bytes) -> Dissection:
    """ApiVersionsResponse v3 with the tagged field finalizedFeaturesEpoch (tag 1, an int64)."""
    data = b"\x00\x00" + b"\x01" + bytes(4) + b"\x01" + b"\x01" + bytes([size]) + content
    dissection = dissect_message("ApiVersionsResponse", 3, data)
    assert_tiled(dissection, data)
    return dissection


def test_known_tagged_field_has_a_normal_path() -> None:
    dissection = _finalized_epoch(8, bytes(7) + b"\x09")
    assert found(dissection, "finalizedFeaturesEpoch").value == 9
    assert dissection_json(dissection)["finalizedFeaturesEpoch"] == 9


def test_tagged_field_with_its_default_is_left_out_of_json() -> None:
    dissection = _finalized_epoch(8, b"\xff" * 8)
    assert found(dissection, "finalizedFeaturesEpoch").value == -1
    assert "finalizedFeaturesEpoch" not in dissection_json(dissection)


@pytest.mark.parametrize(
    ("size", "path", "reason"),
    [
        (7, "finalizedFeaturesEpoch", "needs 8 bytes, 7 left"),
        (9, "tags[0].size", "9 announced, the field takes 8"),
        (99, "tags[0].content", "needs 99 bytes, 20 left"),
    ],
)
def test_tagged_field_must_have_its_announced_size(size: int, path: str, reason: str) -> None:
    error = _finalized_epoch(size, bytes(20)).error
    assert error is not None
    assert (error.path, error.reason) == (path, reason)


@pytest.mark.lengthy
@settings(max_examples=300, database=None, derandomize=True)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_covered_by_every_function(data: bytes) -> None:
    for dissection in (
        dissect_request(data),
        dissect_request(data, is_sized=False),
        dissect_response(data, 78, 2),
        dissect_response(data, 18, 4, is_sized=False),
        dissect_versioned("ShareSnapshotValue", data),
        dissect_versioned(_GROUP, data),
        dissect_records(data),
        dissect_message("FetchResponse", 12, data),
    ):
        assert_tiled(dissection, data)
        dissection_json(dissection)


def test_huge_counts_and_lengths_use_no_memory() -> None:
    frames = [b"\x00\x00\x00\x00\x00\x01" + bytes([0xFF]) * size for size in (6, 40)]
    frames += [b"\x7f\xff\xff\xff" * 8, b"\x00\x00\x00\x00\xff\xff\xff\xff\x0f" * 4]
    dissect_message("ShareFetchResponse", 2, frames[0])
    tracemalloc.start()
    try:
        for frame in frames:
            for name, version in (("ShareFetchResponse", 2), ("FetchResponse", 4), ("MetadataResponse", 0)):
                dissection = dissect_message(name, version, frame)
                assert dissection.error is not None
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
