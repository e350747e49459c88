"""Bytes that somebody gives: guessed, split and named, whatever they are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshare.errors import ConfigError
from kshare.protocol.compression import Compression
from kshare.protocol.record_builder import BatchBuilder
from kshare.wire.guess import Hints, hints_of
from kshare.wire.named_input import NamedInput, NamingLimits, name_input
from tests.cli import frames
from tests.wire.covers import assert_complete

GIVEN = [
    frames.fetch_request(),
    frames.fetch_response(),
    frames.state_segment(),
    frames.login(),
    frames.state_key(),
]


def assert_named(found: NamedInput) -> None:
    end = 0
    for part in found.parts:
        assert part.start == end
        end += len(part.named.buffers[0].data)
        assert_complete(part.named)
    assert end <= found.size
    assert end == found.size or found.notes


@pytest.mark.lengthy
@settings(max_examples=60)
@given(st.binary(min_size=1, max_size=200) | st.sampled_from(GIVEN), st.data())
def test_any_bytes_are_named(data: bytes, draw: st.DataObject) -> None:
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(0, 3))):
        changed[draw.draw(st.integers(0, len(changed) - 1))] = draw.draw(st.integers(0, 255))
    assert_named(name_input(bytes(changed)))


@pytest.mark.lengthy
@settings(max_examples=60)
@given(
    st.binary(min_size=1, max_size=100),
    st.sampled_from(
        [None, "request", "response", "records", "state", "ShareFetchRequest", "ShareSnapshotKey"]
    ),
    st.none() | st.integers(-1, 100),
    st.none() | st.integers(-1, 20),
)
def test_any_hints_give_names_or_the_error(
    data: bytes, kind: str | None, api: int | None, version: int | None
) -> None:
    try:
        assert_named(name_input(data, Hints(kind, api, version)))
    except ConfigError as problem:
        assert "version" in str(problem)


@pytest.mark.lengthy
@settings(max_examples=60)
@given(st.sampled_from(GIVEN), st.integers(0, 60), st.integers(0, 200))
def test_limits_leave_a_rest(data: bytes, spans: int, guessing: int) -> None:
    found = name_input(data, limits=NamingLimits(spans=spans, guessing_spans=guessing))
    assert_named(found)
    made = sum(len(part.named.spans) for part in found.parts)
    # Uncounted are the root, the rests of what was being read, and records explained at the end.
    assert made <= spans + 12
    for part in found.parts:
        assert frames.PASSWORD not in part.named.buffers[0].data
        assert frames.PASSWORD.decode() not in str(part.named.spans)


def test_frames_are_parts_with_guesses() -> None:
    first, second = frames.fetch_request(), frames.login()
    found = name_input(first + second)
    assert [part.named.title for part in found.parts] == [
        "ShareFetchRequest v2",
        "SaslAuthenticateRequest v2",
    ]
    assert [part.start for part in found.parts] == [0, len(first)]
    best = found.parts[0].guesses[0]
    assert (best.kind, best.message, best.version, best.is_whole) == ("request", "ShareFetchRequest", 2, True)
    assert (found.doubt, found.notes) == ("", [])


def test_passwords_are_masked() -> None:
    (part,) = name_input(frames.login()).parts
    assert frames.PASSWORD not in part.named.buffers[0].data
    secret = next(span for span in part.named.spans if span.path == "authBytes" and span.depth is not None)
    assert "*****" in secret.value
    assert "masked" in secret.line[-1][0]


def test_hints_decide() -> None:
    frame = frames.fetch_response()
    found = name_input(frame, hints_of("response", "ShareFetch", 1))
    assert found.parts[0].named.title == "ShareFetchResponse v1"
    with pytest.raises(ConfigError, match="no message is called 'ShareFetchReqest'; did you mean"):
        hints_of("ShareFetchReqest", None, None)
    with pytest.raises(ConfigError, match="no known message fits"):
        name_input(frame, hints_of("response", "ShareFetch", 9))


def test_noise_is_doubted() -> None:
    assert name_input(bytes(range(100, 160))).doubt.startswith(
        "this doesn't look like Kafka data; best guess: "
    )


def test_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="no bytes at all"):
        name_input(b"")


def test_what_was_left_out_is_said() -> None:
    batch = frames.batch()
    found = name_input(batch * 5, limits=NamingLimits(parts=2))
    assert found.notes == [f"only the first 2 parts are shown, up to byte {2 * len(batch)}"]
    found = name_input(batch * 2, limits=NamingLimits(bytes=len(batch)))
    assert found.notes == [f"only the first {len(batch)} of {2 * len(batch)} bytes were read"]
    found = name_input(frames.fetch_response(), limits=NamingLimits(spans=40))
    assert found.notes == ["there are more fields than can be shown: the rest of the bytes is not divided"]
    assert found.parts[0].named.is_cut
    assert found.parts[0].named.spans[-1].kind == "unread"


def test_decompressed_bytes_are_limited() -> None:
    builder = BatchBuilder(compression=Compression.GZIP)
    builder.append(bytes(100_000), timestamp=1)
    bomb = bytes(builder.build())
    found = name_input(bomb * 4, limits=NamingLimits(unpacked=250_000))
    assert [len(part.named.buffers) for part in found.parts] == [2, 2, 1, 1]
    assert "bytes that are left" in found.parts[2].named.problems[0].reason


@pytest.mark.parametrize("pattern", [b"\0", b"\1", b"\0\2", b"\0\0\0\4", b"\0\0\0\5\1\1\1\1\1", b"\xff"])
def test_hostile_bytes_make_no_more_fields_than_allowed(pattern: bytes) -> None:
    limits = NamingLimits(spans=2_000, guessing_spans=5_000)
    found = name_input(pattern * 20_000, limits=limits)
    assert_named(found)
    assert sum(len(part.named.spans) for part in found.parts) <= limits.spans + 3 * limits.parts
