"""Captures as conversations: lines that can be opened, findings, and what was left out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshare.capture import CaptureError
from kshare.protocol.envelopes import encode_response
from kshare.protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kshare.traffic import Filter
from kshare.wire.conversation import (
    CaptureLimits,
    Conversation,
    ListedExchange,
    ListedFinding,
    read_conversation,
)
from kshare.wire.styles import STYLES
from tests.cli import frames
from tests.cli.packets import CAPTURES
from tests.wire.covers import assert_complete, span_with
from tests.wire.written_captures import fetches, written

PATHS = sorted(CAPTURES.glob("*.pcap"))


def in_time() -> bool:
    return False


def text(line: ListedExchange | ListedFinding) -> str:
    return "".join(part for part, _ in line.line)


@pytest.mark.lengthy
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_capture_is_read(path: Path) -> None:
    found = read_conversation(path.read_bytes(), in_time)
    assert len(found.exchanges) == found.summary.exchanges == 16
    assert [exchange.id for exchange in found.exchanges] == list(range(16))
    assert sum(connection.exchanges for connection in found.connections) == 16
    assert any("ShareFetch" in text(line) for line in found.lines)
    assert found.damage == ""
    for exchange in found.exchanges:
        assert {style for _, style in exchange.line} <= STYLES
        assert exchange.frames is not None
        for named in exchange.frames.named().values():
            assert_complete(named)


def test_an_exchange_opens_to_its_fields() -> None:
    (exchange,) = read_conversation(
        written([(frames.fetch_request(), frames.fetch_response())]), in_time
    ).exchanges
    assert (exchange.api, exchange.version, exchange.client_id, exchange.seconds) == (
        "ShareFetch",
        2,
        "me",
        0.5,
    )
    assert (exchange.request_size, exchange.response_size) == (
        len(frames.fetch_request()) - 4,
        len(frames.fetch_response()) - 4,
    )
    assert exchange.frames is not None
    named = exchange.frames.named()
    assert [each.title for each in named.values()] == ["ShareFetchRequest v2", "ShareFetchResponse v2"]
    assert span_with(named["request"], "groupId").kind == "string"


def test_findings_come_with_advice_after_their_exchange() -> None:
    found = read_conversation(written(fetches(0, 1, 5)), in_time)
    kinds = [type(line) for line in found.lines]
    assert kinds[:3] == [ListedExchange] * 3
    first = next(line for line in found.lines if isinstance(line, ListedFinding))
    assert first.rule in {rule.rule for rule in found.rules}
    assert first.advice
    assert {style for _, style in first.line} <= STYLES
    assert found.summary.findings


def test_passwords_are_masked_and_in_no_repr() -> None:
    response = bytes(encode_response(SaslAuthenticateResponse(), 2, 3))
    found = read_conversation(written([(frames.login(), response)]), in_time)
    (exchange,) = found.exchanges
    assert exchange.api == SaslAuthenticateRequest.NAME.removesuffix("Request")
    assert exchange.frames is not None
    named = exchange.frames.named()
    assert frames.PASSWORD not in named["request"].buffers[0].data
    assert frames.PASSWORD.decode() not in repr(found) + repr(named)


def test_filters_select_what_is_listed_and_the_summary_counts_all() -> None:
    data = PATHS[0].read_bytes()
    found = read_conversation(data, in_time, wanted=Filter(apis=("ShareFetch",)))
    assert {exchange.api for exchange in found.exchanges} == {"ShareFetch"}
    assert found.summary.exchanges == 16
    assert read_conversation(data, in_time, ports=[1]).summary.exchanges == 0


def notes(data: bytes, limits: CaptureLimits, is_late: Callable[[], bool] = in_time) -> list[str]:
    return read_conversation(data, is_late, limits=limits).notes


def test_what_was_left_out_is_said() -> None:
    data = written(fetches(0, 1, 2, 3, 4))
    assert notes(data, CaptureLimits(exchanges=2)) == [
        "only the first 2 of 5 exchanges are listed; the summary counts all"
    ]
    assert notes(data, CaptureLimits(frame_bytes=10)) == [
        "5 exchanges can't be opened: too many bytes to keep"
    ]
    assert notes(data, CaptureLimits(bytes=len(data) - 1))[0].startswith(
        f"only the first {len(data) - 1:,} of "
    )
    assert notes(data, CaptureLimits(analyzed=2))[0].startswith(
        "there are more than 2 exchanges: only the first "
    )
    assert notes(data, CaptureLimits(connections=0))[0].startswith(
        "there are more than 0 connections: only the "
    )
    findings = written(fetches(0, 9, 1, 9, 2, 9))
    assert any("findings are listed" in note for note in notes(findings, CaptureLimits(findings=0)))


def test_reading_ends_when_it_is_late() -> None:
    asked = count()
    found = read_conversation(written(fetches(*range(50))), lambda: next(asked) > 60)
    assert found.notes[0] == "reading took too long: only the first 61 packets were read"
    assert 0 < len(found.exchanges) < 50


def test_large_frames_are_not_decoded() -> None:
    found = read_conversation(written(fetches(0, 1)), in_time, limits=CaptureLimits(frame=20))
    assert found.exchanges == []


def test_what_is_no_capture_is_refused() -> None:
    for data in (b"", b"hello", PATHS[0].read_bytes()[:24] + b"\xff" * 100):
        with pytest.raises(CaptureError):
            read_conversation(data, in_time)


def test_a_truncated_capture_is_read_up_to_its_end() -> None:
    found = read_conversation(PATHS[0].read_bytes()[:-100], in_time)
    assert "the file ends in the middle of a packet" in found.damage
    assert found.exchanges


@pytest.mark.lengthy
@settings(max_examples=60)
@given(st.data())
def test_any_damage_gives_a_conversation_or_the_error(data: st.DataObject) -> None:
    capture = bytearray(data.draw(st.sampled_from([path.read_bytes() for path in PATHS])))
    for _ in range(data.draw(st.integers(1, 20))):
        capture[data.draw(st.integers(0, len(capture) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(capture)))
    try:
        found = read_conversation(bytes(capture[:cut]), in_time)
    except CaptureError as problem:
        assert str(problem)
        return
    assert isinstance(found, Conversation)
    for exchange in found.exchanges:
        for named in (exchange.frames.named() if exchange.frames else {}).values():
            assert_complete(named)
