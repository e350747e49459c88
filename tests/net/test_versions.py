"""Negotiating API versions, and errors that say what is missing for share groups."""

from __future__ import annotations

import struct

import pytest

from kshare.errors import ConnectionLost, Unsupported
from kshare.net.share_groups import require_share_groups
from kshare.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from kshare.protocol.messages.api_versions_response import ApiVersion, SupportedFeatureKey
from tests.fakes.peer import RANGES, Conversation, connected, peer, refusal, settings, versions_response

pytestmark = pytest.mark.anyio

UNSUPPORTED_VERSION = 35


@pytest.mark.parametrize(
    ("listed", "second"),
    [([], 0), ([ApiVersion(18, 0, 2)], 2), ([ApiVersion(3, 0, 1), ApiVersion(18, 0, 3)], 3)],
)
async def test_broker_that_only_knows_older_versions_of_api_versions(
    listed: list[ApiVersion], second: int
) -> None:
    """It responds in version 0 to any version. The oldest brokers don't even list the versions that they support."""
    asked: list[int] = []

    async def script(talk: Conversation) -> None:
        # Decoded by hand: an old broker can't decode versions newer than itself.
        frame = memoryview(await talk.stream.receive())
        _, key, version, correlation_id = struct.unpack_from(">ihhi", frame)
        assert key == ApiVersionsRequest.API_KEY
        asked.append(version)
        refused = ApiVersionsResponse(UNSUPPORTED_VERSION, listed).encode(0)
        await talk.send(struct.pack(">ii", 4 + len(refused), correlation_id) + refused)
        header, _ = await talk.request(ApiVersionsRequest)
        asked.append(header.request_api_version)
        await talk.response(header, ApiVersionsResponse(api_keys=[ApiVersion(3, 0, 5)]))
        await talk.silence()

    async with peer(script) as address, connected(settings(address)) as connection:
        assert connection.versions.ranges == {3: (0, 5)}
    assert asked == [4, second]


async def test_broker_that_refuses_the_version_it_offers() -> None:
    async def script(talk: Conversation) -> None:
        while True:
            header, _ = await talk.request(ApiVersionsRequest)
            await talk.response(header, ApiVersionsResponse(UNSUPPORTED_VERSION), version=0)

    async with peer(script) as address:
        problem = await refusal(settings(address))
        assert isinstance(problem, Unsupported)
        assert "refuses the version of ApiVersions that it offers itself" in str(problem)


async def test_broker_that_returns_another_error() -> None:
    async with peer(lambda talk: talk.greet(ApiVersionsResponse(42))) as address:
        problem = await refusal(settings(address))
        assert isinstance(problem, Unsupported)
        assert "INVALID_REQUEST" in str(problem)


async def test_undecodable_response() -> None:
    async def script(talk: Conversation) -> None:
        header, _ = await talk.request(ApiVersionsRequest)
        await talk.send(struct.pack(">iih", 6, header.correlation_id, 0))
        await talk.silence()

    async with peer(script) as address:
        problem = await refusal(settings(address))
        assert isinstance(problem, ConnectionLost)
        assert "its response can't be decoded" in str(problem)


@pytest.mark.lengthy
async def test_peer_that_never_responses() -> None:
    async with peer(lambda talk: talk.silence()) as address:
        for options in ({"connect_timeout": 1.0}, {"request_timeout": 0.1}):
            problem = await refusal(settings(address, **options))
            assert isinstance(problem, ConnectionLost)
            assert "ApiVersions" in str(problem)


async def told(response: ApiVersionsResponse) -> str:
    """The error of `require_share_groups` for a broker with this response."""

    async def script(talk: Conversation) -> None:
        await talk.greet(response)
        await talk.silence()

    async with peer(script) as address, connected(settings(address)) as connection:
        try:
            require_share_groups(connection)
        except Unsupported as error:
            return str(error)
        return ""


async def test_broker_with_share_groups() -> None:
    assert await told(versions_response()) == ""
    assert await told(versions_response(features={"share.version": 2})) == ""


@pytest.mark.parametrize("missing", [ShareGroupHeartbeatRequest, ShareFetchRequest, ShareAcknowledgeRequest])
async def test_broker_without_share_groups(missing: type[ShareFetchRequest]) -> None:
    text = await told(
        versions_response({key: rest for key, rest in RANGES.items() if key != missing.API_KEY})
    )
    assert missing.NAME.removesuffix("Request") in text
    assert "Kafka 4.1 or newer" in text


async def test_broker_with_other_versions_of_the_share_apis() -> None:
    text = await told(versions_response(RANGES | {ShareFetchRequest.API_KEY: (0, 0)}))
    assert "supports ShareFetch v0, kshare v1 to v2" in text
    assert "upgrade the broker" in text
    text = await told(versions_response(RANGES | {ShareFetchRequest.API_KEY: (7, 8)}))
    assert "v7 to v8" in text
    assert "upgrade kshare" in text


async def test_share_groups_switched_off() -> None:
    for features in ({"share.version": 0}, {"metadata.version": 27}):
        text = await told(versions_response(features=features))
        assert "kafka-features.sh" in text
        assert "upgrade --feature share.version=1" in text


async def test_share_groups_cannot_be_switched_on() -> None:
    response = versions_response(features={"metadata.version": 25})
    response.supported_features = [SupportedFeatureKey("share.version", 0, 0)]
    assert "can't run share.version=1" in await told(response)
