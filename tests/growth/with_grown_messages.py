"""How each package handles unknown versions and fields. Run by test_growth, with grown messages."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings

from kshare import ShareConsumer
from kshare.broker.profiles import Profile
from kshare.broker.shares import share_partition
from kshare.broker.shares.delivery import GroupLimits, RecordState
from kshare.broker.shares.share_partition import _apply_ack
from kshare.broker.shares.window import DeliveryRun
from kshare.client.record import settle_held
from kshare.dissect import Dissection, dissect_request, dissect_response, dissection_json
from kshare.engine.events import Acknowledged
from kshare.net.settings import NetSettings
from kshare.protocol import by_name
from kshare.protocol.acknowledge_types import AcknowledgeType
from kshare.protocol.envelopes import decode_response, encode_request, encode_response
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.frames import FrameSplitter
from kshare.protocol.message import Message
from kshare.protocol.messages import (
    ApiVersionsResponse,
    FindCoordinatorRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
    share_acknowledge_request,
)
from kshare.protocol.messages.api_versions_response import ApiVersion
from kshare.protocol.messages.share_fetch_request import FetchPartition, FetchTopic
from kshare.protocol.primitives import join_tags, split_tags
from kshare.protocol.spec import specs_of
from kshare.state.acks import AckOutcome, PartitionAcks
from kshare.state.lease import SETTLED, Lease
from kshare.state.session import AckRange
from kshare.testing import Broker
from kshare.trace import Proxy
from kshare.trace.addresses import address_structs
from kshare.trace.request_heads import RequestHead
from kshare.trace.response_stream import ResponseStream
from kshare.trace.response_tail import TAIL
from kshare.traffic.share_exchange import TYPE_NAMES
from tests.dissect.tiling import assert_tiled
from tests.growth.schemas import APIS, GROWN, NEW_TYPE
from tests.helpers.plain_client import PlainClient, plain_client
from tests.helpers.strategies import messages_of

fetched: Any = import_module("kshare.protocol.messages.share_fetch_response")

DEADLINE_S = 60.0
HERE = ("10.0.0.1", 5)
ADDRESSED = [f"{api}Response" for api in APIS if api != "ShareGroupHeartbeat"]
few = settings(max_examples=10, suppress_health_check=list(HealthCheck), database=None)


def newest(name: str) -> int:
    return by_name.message_class(name).VERSIONS[1]


# --- codec


def test_the_new_version_is_known() -> None:
    assert (newest("ShareFetchRequest"), newest("ShareFetchResponse")) == (3, 3)


@pytest.mark.parametrize("name", GROWN)
def test_an_older_version_keeps_unknown_tags(name: str) -> None:
    cls: Any = by_name.message_class(name)
    version = newest(name) - 1
    new = next(spec.tag[0] for spec in specs_of(cls) if spec.json_name == "grownNote" and spec.tag)
    message = cls(unknown_tags=join_tags({new: b"not to be read", 77: b""}))
    assert cls.decode(message.encode(version), version) == message


# --- trace


def passed_on(frame: bytes, response: Message, version: int) -> bytes:
    stream = ResponseStream({7: RequestHead(response.API_KEY, version, 7)}, lambda host, port: HERE)
    return b"".join(bytes(piece) for piece in stream.feed(frame))


@pytest.mark.parametrize("name", ADDRESSED)
def test_responses_are_forwarded_whole_with_rewritten_addresses(name: str) -> None:
    version = newest(name)

    @few
    @given(messages_of(name, version))
    def check(response: Any) -> None:
        came = passed_on(bytes(encode_response(response, version, 7)), response, version)
        for place in address_structs(response):
            place.host, place.port = HERE
        assert came == bytes(encode_response(response, version, 7))

    check()


def test_the_end_of_a_large_response_keeps_every_new_field() -> None:
    trail = fetched.NodeEndpointTrail(1, [fetched.NodeEndpointStep(2, fetched.NodeEndpointCause(3, b"why"))])
    endpoint = fetched.NodeEndpoint(1, "kafka-1.example.com", 9092, "a", 4, 5, trail)
    own = fetched.ShareFetchResponseTrail(
        6, [fetched.ShareFetchResponseStep(7, fetched.ShareFetchResponseCause(8, b"so"))]
    )
    topic = fetched.ShareFetchableTopicResponse(
        bytes(16), [fetched.PartitionData(0, records=bytes(2 * TAIL))]
    )
    response = fetched.ShareFetchResponse(
        responses=[topic],
        node_endpoints=[endpoint],
        grown_share=0.5,
        grown_is_last=False,
        grown_name="plain",
        grown_note="tagged",
        grown_marks=b"\1\0",
        grown_id=bytes(range(16)),
        grown_trail=own,
        grown_pairs=[fetched.GrownPair(1, 0.25, 2)],
        unknown_tags=join_tags({50: b"later still"}),
    )
    frame = bytes(encode_response(response, 3, 7))
    came = passed_on(frame, response, 3)
    assert len(came) == len(frame)
    _, moved = decode_response(fetched.ShareFetchResponse, 3, memoryview(came)[4:])
    padding = split_tags(moved.unknown_tags, 0)[0]
    assert padding.pop(50) == b"later still"
    assert len(padding) == 1
    endpoint.host, endpoint.port = HERE
    moved.unknown_tags = response.unknown_tags
    assert moved == response


@pytest.mark.parametrize("hint", [-1, 1])
def test_addresses_before_new_fields_are_rewritten(hint: int) -> None:
    endpoint = fetched.NodeEndpoint(1, "kafka-1.example.com", 9092, grown_hint=hint)
    topic = fetched.ShareFetchableTopicResponse(
        bytes(16), [fetched.PartitionData(0, records=bytes(2 * TAIL))]
    )
    response = fetched.ShareFetchResponse(responses=[topic], node_endpoints=[endpoint])
    came = passed_on(bytes(encode_response(response, 3, 7)), response, 3)
    _, moved = decode_response(fetched.ShareFetchResponse, 3, memoryview(came)[4:])
    assert [(node.host, node.port, node.grown_hint) for node in moved.node_endpoints] == [(*HERE, hint)]


@pytest.mark.parametrize("is_last", [True, False])
def test_a_large_response_without_addresses_is_forwarded_unchanged(is_last: bool) -> None:
    topic = fetched.ShareFetchableTopicResponse(
        bytes(16), [fetched.PartitionData(0, records=bytes(2 * TAIL))]
    )
    response = fetched.ShareFetchResponse(responses=[topic], grown_is_last=is_last)
    frame = bytes(encode_response(response, 3, 7))
    assert passed_on(frame, response, 3) == frame


def test_the_version_after_the_newest_is_not_offered() -> None:
    offered = ApiVersionsResponse(api_keys=[ApiVersion(78, 1, 4)])
    came = passed_on(bytes(encode_response(offered, 4, 7)), offered, 4)
    _, limited = decode_response(ApiVersionsResponse, 4, memoryview(came)[4:])
    assert [api.max_version for api in limited.api_keys] == [3]


# --- the broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Behaves like a release that doesn't support the new versions."""
    with Broker(topics={"t": 1}) as running:
        running.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        running.produce("t", [b"0", b"1", b"2"])
        yield running


def grow(broker: Broker) -> None:
    known = broker.state.profile
    newer = {
        by_name.message_class(name).API_KEY: (by_name.message_class(name).VERSIONS[0], newest(name))
        for name in GROWN
    }
    newer = {key: (max(first, known.versions[key][0]), last) for key, (first, last) in newer.items()}
    broker.state.profile = Profile(known.release, {**known.versions, **newer}, known.features)


def address(broker: Broker) -> tuple[str, int]:
    host, _, port = broker.bootstrap.partition(":")
    return host, int(port)


def test_a_client_uses_a_version_that_the_broker_supports(broker: Broker) -> None:
    with plain_client(address(broker)) as client:
        assert client.version_of(ShareFetchRequest()) == 2
    grow(broker)
    with plain_client(address(broker)) as client:
        assert client.version_of(ShareFetchRequest()) == 3


def test_a_version_that_the_broker_does_not_support_closes_the_connection(broker: Broker) -> None:
    with socket.create_connection(address(broker), timeout=DEADLINE_S) as connection:
        connection.sendall(encode_request(ShareFetchRequest(), 3, 1, "test"))
        assert connection.recv(1) == b""


def test_new_fields_are_sent_in_both_directions(broker: Broker) -> None:
    grow(broker)
    seen: list[Any] = []

    def see(request: Any) -> bool:
        seen.append(request)
        return True

    def fill(response: Any) -> None:
        response.grown_share, response.grown_note = 0.75, "from the broker"
        response.responses[0].partitions[0].grown_hint = 11

    broker.faults.add(ShareFetchRequest, when=see, change=fill)
    with plain_client(address(broker)) as client:
        response = _first_fetch(client, broker)
    assert (seen[0].grown_note, seen[0].topics[0].grown_hint) == ("from the client", 12)
    assert (response.grown_share, response.grown_note) == (0.75, "from the broker")
    (partition,) = response.responses[0].partitions
    assert partition.grown_hint == 11
    assert [(acquired.first_offset, acquired.last_offset) for acquired in partition.acquired_records] == [
        (0, 2)
    ]


def _first_fetch(client: PlainClient, broker: Broker) -> Any:
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    joined = client.ask(ShareGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=["t"]))
    assert joined.error_code == ErrorCode.NONE
    topic_id = broker.call(lambda: broker.state.cluster.topics["t"].id)
    request: Any = ShareFetchRequest(
        group_id="g", member_id="m", max_wait_ms=5000, min_bytes=1, max_records=10, batch_size=10
    )
    topic: Any = FetchTopic(topic_id, [FetchPartition(0)])
    topic.grown_hint, request.topics, request.grown_note = 12, [topic], "from the client"
    return client.ask(request)


async def _consume(bootstrap: str) -> list[bytes | None]:
    with anyio.fail_after(DEADLINE_S):
        async with ShareConsumer(bootstrap, group="g", topics=["t"]) as consumer:
            values = []
            async for record in consumer:
                values.append(record.value)
                record.accept()
                if len(values) == 3:
                    return values
    raise AssertionError("the loop ended early")


class Witness:
    """A watcher of the proxy that splits every connection into frames and dissects them."""

    def __init__(self) -> None:
        self.versions: dict[int, set[int]] = {}
        self.dissections: list[tuple[Dissection, bytes]] = []

    def opened(self, client: object, server: object, name: str, time: float) -> Witness.Talk:
        return Witness.Talk(self)

    def note(self, text: str) -> None:
        raise AssertionError(text)

    class Talk:
        def __init__(self, witness: Witness) -> None:
            self._witness = witness
            self._asked, self._responded = FrameSplitter(), FrameSplitter()
            self._heads: dict[int, tuple[int, int]] = {}

        def client_sends(self, data: memoryview, time: float) -> None:
            for frame in self._asked.feed(bytes(data)):
                key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (0, 2))
                self._heads[int.from_bytes(frame[4:8], "big")] = key, version
                self._witness.versions.setdefault(key, set()).add(version)
                self._witness.dissections.append((dissect_request(frame, is_sized=False), bytes(frame)))

        def server_sends(self, data: memoryview, time: float) -> None:
            for frame in self._responded.feed(bytes(data)):
                key, version = self._heads.pop(int.from_bytes(frame[:4], "big"))
                self._witness.dissections.append(
                    (dissect_response(frame, key, version, is_sized=False), bytes(frame))
                )

        def closed(self, time: float, *, by_client: bool) -> None: ...


@pytest.mark.parametrize("version", [2, 3])
def test_a_consumer_reads_through_the_proxy(broker: Broker, version: int) -> None:
    if version == 3:
        grow(broker)
    witness = Witness()

    async def run() -> list[bytes | None]:
        async with anyio.create_task_group() as tasks:
            proxy = Proxy(NetSettings(bootstrap=(address(broker),)), ("127.0.0.1", 0), witness)
            host, port = await tasks.start(proxy.run)
            values = await _consume(f"{host}:{port}")
            tasks.cancel_scope.cancel()
        return values

    assert anyio.run(run) == [b"0", b"1", b"2"]
    assert witness.versions[78] == {version}
    assert witness.versions[76] == {version - 1}
    for dissection, frame in witness.dissections:
        assert_tiled(dissection, frame)
        assert dissection.problems == []
        assert dissection_json(dissection)


# --- a new acknowledgement type


SKIP = AcknowledgeType(NEW_TYPE)


def test_a_lease_settles_records_of_the_new_type() -> None:
    acks = PartitionAcks((bytes(16), 0))
    lease = Lease(acks.partition, 0, 5, 1)
    acks.add(lease)
    kinds = [SKIP, AcknowledgeType.ACCEPT, AcknowledgeType.RENEW, SKIP, SKIP, AcknowledgeType.GAP]
    assert all(lease.decide(offset, kind) for offset, kind in enumerate(kinds))
    assert [offset for offset in range(6) if lease.is_held(offset)] == [2]
    sent = acks.take(renewals=False)
    assert {
        (offset, types[0] if len(types) == 1 else types[offset - first])
        for first, last, types in sent
        for offset in range(first, last + 1)
    } == {(offset, kind) for offset, kind in enumerate(kinds) if kind.is_final}
    (outcome,) = acks.on_response(0)
    assert outcome.ranges == tuple(sent)
    assert lease.count(SETTLED) == 5
    assert not lease.can_decide(0)


def test_a_refused_acknowledgement_of_the_new_type_is_lost() -> None:
    acks = PartitionAcks((bytes(16), 0))
    lease = Lease(acks.partition, 0, 0, 1)
    acks.add(lease)
    lease.decide(0, SKIP)
    lease.decide(0, AcknowledgeType.ACCEPT)
    lease.decide(0, SKIP)
    assert [*acks.lose()] == [AckOutcome(acks.partition, (AckRange(0, 0, bytes([SKIP])),), 122)]
    assert lease.is_lost(0)


def test_the_new_type_is_sent_confirmed_and_reported(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_partition, "_apply_ack", _archive_skipped)
    events: list[object] = []

    async def run() -> None:
        with anyio.fail_after(DEADLINE_S):
            async with ShareConsumer(
                broker.bootstrap, group="g", topics=["t"], acknowledgement="explicit", observer=events.append
            ) as consumer:
                async for record in consumer:
                    if record.offset == 0:
                        record.accept()
                    elif record.offset == 2:
                        settle_held(record.batch, SKIP)  # what a method of the record's would call
                        break
                assert [*(await consumer.commit()).values()] == [None]

    anyio.run(run)
    counts: Counter[str] = Counter()
    for event in events:
        counts.update(event.counts() if isinstance(event, Acknowledged) else {})
    assert counts == {"accept": 1, "skip": 2}
    acknowledged = broker.call(lambda: dict(broker.state.counters.acknowledged))
    assert acknowledged == {("g", "accept"): 1, ("g", "skip"): 2}


def _archive_skipped(
    change: share_partition.Change, run: DeliveryRun, kind: AcknowledgeType, limits: GroupLimits
) -> None:
    """What the new type means to a broker."""
    if kind is SKIP:
        change.settle(run, RecordState.ARCHIVED)
    else:
        _apply_ack(change, run, kind, limits)


def test_the_new_type_is_named() -> None:
    batch = share_acknowledge_request.AcknowledgementBatch(0, 0, bytes([SKIP]))
    partition = share_acknowledge_request.AcknowledgePartition(0, [batch])
    request = ShareAcknowledgeRequest(
        "g", "m", 1, topics=[share_acknowledge_request.AcknowledgeTopic(bytes(16), [partition])]
    )
    dissection = dissect_request(encode_request(request, 2, 1, "test"), is_sized=True)
    assert "skip" in {span.note for top in dissection.spans for _, span in top.walk()}
    assert TYPE_NAMES[SKIP] == "skip"
