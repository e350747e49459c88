"""Guessing the kind of message from bytes alone."""

from __future__ import annotations

import pytest

from kshare.dissect.fields import index
from kshare.errors import ConfigError
from kshare.protocol import messages
from kshare.protocol.envelopes import encode_request, encode_response
from kshare.protocol.messages import (
    ShareAcknowledgeResponse,
    ShareGroupHeartbeatResponse,
)
from kshare.wire.guess import Hints, check_kind, rank
from tests.cli import frames


def best(frame: bytes, wanted: Hints | None = None) -> str:
    return str(rank(memoryview(frame), wanted or Hints())[0].guess)


@pytest.mark.lengthy
@pytest.mark.parametrize("is_sized", [True, False])
def test_messages_of_a_share_consumer_are_recognized(is_sized: bool) -> None:
    start = 0 if is_sized else 4
    heartbeat = ShareGroupHeartbeatResponse(member_id="AAECAwQFBgcICQoLDA0ODw", heartbeat_interval_ms=5000)
    assert best(frames.fetch_request()[start:]) == "ShareFetchRequest v2"
    assert best(frames.fetch_response()[start:]) == "ShareFetchResponse v2"
    assert best(bytes(encode_response(heartbeat, 1, 3))[start:]) == "ShareGroupHeartbeatResponse v1"


@pytest.mark.lengthy
@pytest.mark.parametrize("name", sorted(index.REQUESTS.values()))
def test_every_request_is_recognized_by_its_header(name: str) -> None:
    request = getattr(messages, name)()
    version = request.VERSIONS[1]
    assert best(bytes(encode_request(request, version, 1, "me"))) == f"{name} v{version}"


@pytest.mark.parametrize("name", sorted(index.RESPONSES.values()))
def test_every_response_is_found_for_its_api(name: str) -> None:
    response = getattr(messages, name)()
    version = response.VERSIONS[1]
    guesses = rank(memoryview(bytes(encode_response(response, version, 1))), Hints(api=response.API_KEY))
    assert guesses[0].is_whole
    assert f"{name} v{version}" in {str(guess.guess) for guess in guesses if guess.is_whole}


def test_given_version_is_respected() -> None:
    frame = bytes(encode_response(ShareAcknowledgeResponse(), 1, 3))
    assert best(frame, Hints(api=79, version=1)) == "ShareAcknowledgeResponse v1"


def test_misspelt_kind_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean 'ShareSnapshotKey"):
        check_kind("ShareSnapshotKye")
