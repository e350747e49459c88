"""What is read of what users paste and load."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.capture import CaptureError
from kshare.errors import ConfigError
from kshare.web import loaded_input
from kshare.web.loaded_input import (
    MOST_IN_LINK,
    NAMING,
    HintTexts,
    LoadedCapture,
    LoadedMessage,
    hint_texts,
    loaded,
    name_message,
    packed,
    pasted,
    unpacked,
)
from tests.cli import frames
from tests.wire.written_captures import fetches, written

NO_HINTS = HintTexts()


@given(st.binary(min_size=1, max_size=100))
def test_links_contain_the_bytes(data: bytes) -> None:
    assert unpacked(packed(data)) == LoadedMessage(data, len(data))


@pytest.mark.parametrize(
    ("text", "reason"),
    [("a", "damaged"), ("a b", "damaged"), ("é" * 4, "damaged"), ("A" * 30_000, "at most 16,384")],
)
def test_damaged_links_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        unpacked(text)


def test_the_longest_link_is_accepted() -> None:
    assert unpacked(packed(bytes(MOST_IN_LINK))).given == MOST_IN_LINK


@pytest.mark.lengthy
def test_text_in_any_form_gives_the_bytes() -> None:
    data = frames.fetch_request()
    for text in (data.hex(), data.hex(" "), packed(data), repr(data)):
        assert pasted(text, NO_HINTS) == LoadedMessage(data, len(data))


@pytest.mark.parametrize("text", ["", "  \n", "no bytes!", "abc", written(fetches(0)).hex()])
def test_text_that_is_not_bytes_of_a_message_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        pasted(text, NO_HINTS)


def test_passwords_are_not_kept() -> None:
    for found in (pasted(frames.login().hex(), NO_HINTS), loaded(io.BytesIO(frames.login()), "login")):
        assert isinstance(found, LoadedMessage)
        assert found.is_masked
        assert frames.PASSWORD not in found.data
        assert name_message(found, NO_HINTS).parts[0].named.title == "SaslAuthenticateRequest v2"


def test_long_input_is_cut_and_says_so() -> None:
    found = loaded(io.BytesIO(bytes(NAMING.bytes + 5)), "zeros")
    assert isinstance(found, LoadedMessage)
    assert len(found.data) == NAMING.bytes
    assert found.notes == ["only the first 1,048,576 of 1,048,581 bytes were read"]


@pytest.mark.parametrize(
    ("hints", "reason"),
    [
        ({"kind": "letter"}, "no message is called 'letter'"),
        ({"api": "Fetsch"}, "did you mean"),
        ({"version": "two"}, "isn't a version"),
        ({"version": "9" * 5000}, "isn't a version"),
        ({"kind": "x" * 5000}, "long name"),
    ],
)
def test_hints_that_are_wrong_are_explained(hints: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        hint_texts(hints).parsed()


def test_a_capture_is_read() -> None:
    found = loaded(io.BytesIO(written(fetches(0, 1, 5))), "talk.pcapng")
    assert isinstance(found, LoadedCapture)
    assert found.conversation.summary.exchanges == 3
    frames_kept = sum(
        exchange.request_size + (exchange.response_size or 0) for exchange in found.conversation.exchanges
    )
    assert found.size > frames_kept > 0


def test_a_capture_that_takes_too_long_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_input, "DEADLINE_S", -1.0)
    found = loaded(io.BytesIO(written(fetches(0, 1))), "talk")
    assert isinstance(found, LoadedCapture)
    assert any("reading took too long" in note for note in found.conversation.notes)


def test_files_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(ConfigError, match="the file notes is empty"):
        loaded(io.BytesIO(b""), "notes")
    with pytest.raises(ConfigError, match="isn't hex"):
        loaded(io.BytesIO(b"Dear diary!"), "notes")
    with pytest.raises(CaptureError):
        loaded(io.BytesIO(written(fetches(0))[:10]), "talk")
