"""Hostile bytes: any input raises a DecodeError with path and offset, in bounded time and memory."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from kshare.errors import DecodeError
from kshare.protocol import by_name
from kshare.protocol.message import Message
from kshare.protocol.messages import (
    ApiVersionsResponse,
    FetchRequest,
    MetadataRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareSnapshotValue,
)
from kshare.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
)
from tests.helpers.strategies import every_message, messages_of, shapes

quick = settings(max_examples=3, suppress_health_check=list(HealthCheck), database=None)
# Part of every error message: a field's path, then the offset.
LOCATED = r"^.+ at byte \d+: ."


@pytest.mark.lengthy
@every_message
def test_truncation_at_every_byte(name: str) -> None:
    for versions in shapes(name):
        _truncate(name, versions[0])


def _truncate(name: str, version: int) -> None:
    @quick
    @seed(7)
    @given(messages_of(name, version))
    def check(message: Message) -> None:
        data = message.encode(version)
        step = max(1, len(data) // 200)
        for length in {*range(0, len(data), step), len(data) - 1}:
            if length >= 0 and len(data):
                with pytest.raises(DecodeError, match=LOCATED) as caught:
                    by_name.decode(name, version, data[:length])
                assert 0 <= caught.value.offset <= length

    check()


@pytest.mark.lengthy
@every_message
def test_random_damage_is_decoded_or_located(name: str) -> None:
    for versions in shapes(name):
        _damage(name, versions[0])


def _damage(name: str, version: int) -> None:
    @quick
    @seed(11)
    @given(messages_of(name, version), st.builds(random.Random, st.integers(0, 1 << 32)))
    def check(message: Message, chance: random.Random) -> None:
        data = message.encode(version)
        for _ in range(30):
            _decode_mutant(name, version, _mutate(data, chance))

    check()


def _mutate(data: bytes, chance: random.Random) -> bytes:
    mutant = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(mutant))
        kind = chance.randint(0, 2)
        if kind == 0:
            mutant[at:at] = chance.choice([b"\xff", b"\x00", b"\x80\x80\x80\x80\x08", b"\x7f\xff\xff\xff"])
        elif kind == 1:
            del mutant[at : at + chance.randint(1, 4)]
        elif at < len(mutant):
            mutant[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randint(0, 255)])
    return bytes(mutant)


def _decode_mutant(name: str, version: int, mutant: bytes) -> None:
    try:
        message = by_name.decode(name, version, mutant)
    except DecodeError as error:
        assert error.path, error
        assert 0 <= error.offset <= len(mutant), error
    else:
        # A decoded message can be encoded and decoded again. Compared as bytes, because NaN doesn't equal itself.
        data = message.encode(version)
        assert by_name.decode(name, version, data).encode(version) == data


@pytest.mark.parametrize(
    ("cls", "version", "data", "path", "offset", "reason"),
    [
        (ShareFetchRequest, 1, b"\x02\xff" + bytes(40), "groupId", 0, "not UTF-8"),
        (ShareFetchRequest, 1, b"\xff\xff\xff\xff\xff\x0f", "groupId", 0, "longer than 32 bits"),
        (ShareFetchRequest, 1, b"\x80\x80\x80\x80\x80\x01", "groupId", 0, "longer than 32 bits"),
        (ShareFetchRequest, 1, b"\xff\xff\xff\xff\x0f", "groupId", 0, "a string of 4294967294 bytes"),
        (
            ShareFetchRequest,
            1,
            b"\x00\x00" + bytes(24) + b"\xff\xff\xff\xff\x0f",
            "topics",
            26,
            "4294967294 elements",
        ),
        (ShareFetchRequest, 1, b"\x00\x00" + bytes(10), "minBytes", 10, "4 bytes needed, 2 are left"),
        (ShareFetchRequest, 1, b"\x00\x00" + bytes(24) + b"\x00", "topics", 26, "null"),
        (MetadataRequest, 0, b"\xff\xff\xff\xff", "topics", 0, "null"),
        (MetadataRequest, 1, b"\xff\xff\xff\xfe", "topics", 0, "-2 elements"),
        (MetadataRequest, 1, b"\x00\x00\x00\x01\xff\xfe", "topics[0].name", 4, "-2 bytes"),
        (MetadataRequest, 1, b"\x7f\xff\xff\xff" + bytes(6), "topics", 0, "2147483647 elements"),
        (
            FetchRequest,
            17,
            bytes(21) + b"\1\1\1" + b"\1\0\3" + b"\1ab",
            "clusterId",
            28,
            "tagged field of 3 bytes",
        ),
    ],
)
def test_error_has_path_and_offset(
    cls: type[Any], version: int, data: bytes, path: str, offset: int, reason: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        cls.decode(data, version)
    assert (caught.value.path, caught.value.offset) == (path, offset), caught.value
    assert reason in caught.value.reason


def test_trailing_bytes_are_refused() -> None:
    data = ShareFetchRequest().encode(1)
    with pytest.raises(DecodeError, match=f"ShareFetchRequest at byte {len(data)}: 3 bytes are left over"):
        ShareFetchRequest.decode(data + b"abc", 1)


def test_tags_out_of_order_are_refused() -> None:
    data = ShareFetchRequest().encode(1)[:-1]
    with pytest.raises(DecodeError, match="unknown_tags at byte 28: tag 5 after tag 5"):
        ShareFetchRequest.decode(data + b"\x02\x05\x00\x05\x00", 1)


def test_path_of_a_nested_field_is_complete() -> None:
    rows = [AcquiredRecords(n, n, 1) for n in range(3)]
    partitions = [PartitionData(partition_index=n, acquired_records=rows) for n in range(2)]
    message = ShareFetchResponse(responses=[ShareFetchableTopicResponse(partitions=partitions)])
    data = message.encode(1)
    with pytest.raises(DecodeError) as caught:
        ShareFetchResponse.decode(data[: len(data) - 30], 1)
    assert caught.value.path == "responses[0].partitions[1].acquiredRecords[1].lastOffset"


@pytest.mark.parametrize(
    ("cls", "version", "prefix"),
    [
        (ShareFetchRequest, 2, bytes(2) + bytes(26)),
        (ShareAcknowledgeRequest, 1, bytes(2) + bytes(4)),
        (ShareFetchResponse, 1, bytes(4) + bytes(2) + bytes(1) + bytes(4)),
        (ApiVersionsResponse, 3, bytes(2)),
        (MetadataRequest, 12, b""),
        (ShareSnapshotValue, 0, bytes(28)),
    ],
)
@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x10"])
def test_few_bytes_never_allocate_megabytes(
    cls: type[Any], version: int, prefix: bytes, count: bytes
) -> None:
    data = prefix + count + bytes(4)
    with pytest.raises(DecodeError):
        cls.decode(data, version)  # also loads what is loaded lazily
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            cls.decode(data, version)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000
