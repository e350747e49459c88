"""One conversation with one broker: sends hand-made requests, and keeps the responses in a comparable form.

Names and ids that differ between two brokers are replaced by the script's labels for them. Times are left out, and so
are error texts, except those that admin tools show unchanged.
"""

from __future__ import annotations

import base64
import itertools
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, TypeVar

from kshare.protocol.envelopes import decode_response, encode_request, request_class
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.frames import FrameSplitter
from kshare.protocol.json_form import to_json, uuid_text
from kshare.protocol.message import Message, Request
from kshare.protocol.messages import (
    REQUESTS,
    ApiVersionsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    ProduceRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kshare.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from kshare.protocol.messages.describe_configs_request import DescribeConfigsResource
from kshare.protocol.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import read_batches
from tools.kafka.listeners import User

ResponseT = TypeVar("ResponseT", bound=Message)
Entry = tuple[str, Any]

DEADLINE_S = 20.0
_LEFT_OUT = frozenset(
    {
        "throttleTimeMs",
        "nodeEndpoints",
        "clientId",
        "acknowledgeErrorMessage",
    }
)
_IN_ITS_WORDS = frozenset(
    {
        "AlterShareGroupOffsetsRequest",
        "ConsumerGroupDescribeRequest",
        "ConsumerGroupHeartbeatRequest",
        "DeleteGroupsRequest",
        "DeleteShareGroupOffsetsRequest",
        "DescribeGroupsRequest",
        "DescribeShareGroupOffsetsRequest",
        "ShareGroupDescribeRequest",
        "ShareGroupHeartbeatRequest",
    }
)
"""Requests whose error texts are compared."""
_SETS = ("partitions", "subscribedTopicNames")
"""Lists that brokers sort as they like."""
_NAMING = ("topicName", "groupId", "memberId", "topicId", "name")
_GROUP_RESOURCE, _SET = 32, 0


class Connection:
    """A socket on which requests are sent, and responses received later."""

    def __init__(self, address: tuple[str, int], versions: dict[int, int], user: User | None = None) -> None:
        self._socket = socket.create_connection(address, timeout=DEADLINE_S)
        self._splitter = FrameSplitter()
        self._arrived: list[memoryview] = []
        self._versions = versions
        self._numbers = itertools.count()
        if user is not None:
            self._log_in(user)

    def _log_in(self, user: User) -> None:
        words = ("", user.name, user.password)
        for request in (SaslHandshakeRequest("PLAIN"), SaslAuthenticateRequest("\0".join(words).encode())):
            version = self.send(request, 1)
            response: Any = self.receive(request.RESPONSE, version)
            assert response.error_code == 0, response

    def send(self, request: Request[Any], version: int | None = None) -> int:
        """The default is the highest version that both sides support. Returns the version."""
        if version is None:
            version = self._versions[request.API_KEY]
        self._socket.sendall(encode_request(request, version, next(self._numbers), "talk"))
        return version

    def receive(self, kind: type[ResponseT], version: int) -> ResponseT:
        while not self._arrived:
            chunk = self._socket.recv(1 << 20)
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            self._arrived += self._splitter.feed(chunk)
        return decode_response(kind, version, self._arrived.pop(0))[1]

    def close(self) -> None:
        self._socket.close()


class Talk:
    """A conversation. `log` has the responses."""

    def __init__(self, address: tuple[str, int], user: User | None = None) -> None:
        """`user`: log in new connections as this user."""
        self.log: list[Entry] = []
        self.mark = uuid.uuid4().hex[:6]
        self.topic_ids: dict[str, bytes] = {}
        self.user = user
        self._address = address
        self._addresses: dict[str, tuple[str, int]] = {}
        self._names: dict[str, str] = {}
        self._versions = {ApiVersionsRequest.API_KEY: 3}
        self._connections: dict[str, Connection] = {}
        known = self.quietly(ApiVersionsRequest("talk", "0"))
        kinds = ((api, request_class(api.api_key)) for api in known.api_keys if api.api_key in REQUESTS)
        self._versions |= {api.api_key: min(api.max_version, kind.VERSIONS[1]) for api, kind in kinds}

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections.values():
            connection.close()

    # --- asking

    def ask(self, request: Request[ResponseT], via: str = "main") -> ResponseT:
        """Send a request, and keep its response."""
        self.send(request, via)
        return self.receive(request, via)

    def quietly(
        self, request: Request[ResponseT], via: str = "main", version: int | None = None
    ) -> ResponseT:
        """Send a request whose response isn't compared."""
        connection = self.connection(via)
        version = connection.send(request, version)
        return connection.receive(request.RESPONSE, version)  # type: ignore[return-value]

    def send(self, request: Request[ResponseT], via: str = "main") -> None:
        """Send a request without waiting: `receive` returns the response."""
        self.connection(via).send(request)

    def receive(self, request: Request[ResponseT], via: str = "main") -> ResponseT:
        version = self._versions[request.API_KEY]
        response = self.connection(via).receive(request.RESPONSE, version)
        left_out = _LEFT_OUT if request.NAME in _IN_ITS_WORDS else _LEFT_OUT | {"errorMessage"}
        self.log.append((request.NAME, self._comparable(to_json(response, version), left_out)))
        return response  # type: ignore[return-value]

    def wait_for(
        self,
        request: Callable[[], Request[ResponseT]],
        good: Callable[[ResponseT], bool],
        version: int | None = None,
        via: str = "main",
    ) -> ResponseT:
        """Repeat a request until the response is good. Responses aren't compared."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            response = self.quietly(request(), via, version)
            if good(response):
                return response
            if time.monotonic() > deadline:
                raise AssertionError(f"no good response in time; the last one: {response}")
            time.sleep(0.05)

    def note(self, what: str, value: object) -> None:
        """Keep another value that must be equal."""
        self.log.append((what, self._comparable(value)))

    def newest(self, kind: type[Request[Any]]) -> int:
        """The highest version of an API that both sides support."""
        return self._versions[kind.API_KEY]

    def connection(self, name: str) -> Connection:
        if name not in self._connections:
            address = self._addresses.get(name, self._address)
            self._connections[name] = Connection(address, self._versions, self.user)
        return self._connections[name]

    def send_to(self, name: str, address: tuple[str, int]) -> None:
        """Connect this connection to another node from now on."""
        self._addresses[name] = address
        if name in self._connections:
            self.hang_up(name)

    def hang_up(self, name: str) -> None:
        self._connections.pop(name).close()

    # --- names

    def name(self, label: str) -> str:
        """A unique name. The log has `label` instead of it."""
        unique = f"{label}-{self.mark}"
        self._names[unique] = label
        return unique

    def call(self, unique: str, label: str) -> None:
        """Let the log have `label` instead of an id that the broker has chosen."""
        self._names[unique] = label

    def member(self, label: str) -> str:
        """A new member id."""
        chosen = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self._names[chosen] = label
        return chosen

    # --- setup

    def topic(self, label: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> str:
        """Create a topic, and look up its id."""
        name = self.name(label)
        configs = [CreatableTopicConfig(key, value) for key, value in (settings or {}).items()]
        response = self.quietly(CreateTopicsRequest([CreatableTopic(name, partitions, 1, configs=configs)]))
        assert response.topics[0].error_code == 0, response
        wanted = [MetadataRequestTopic(name=name)]
        found = self.wait_for(
            lambda: MetadataRequest(topics=wanted),
            lambda metadata: (
                not metadata.topics[0].error_code
                and all(p.leader_id >= 0 for p in metadata.topics[0].partitions)
            ),
        )
        self.topic_ids[name] = found.topics[0].topic_id
        self._names[uuid_text(found.topics[0].topic_id)] = label
        return name

    def group(self, label: str, settings: Mapping[str, str] | None = None) -> str:
        """Configure a share group that starts at the earliest record. Returns its name."""
        name = self.name(label)
        wanted = {"share.auto.offset.reset": "earliest"} | dict(settings or {})
        self.configure_group(name, wanted)
        self.wait_for(
            lambda: FindCoordinatorRequest(key_type=0, coordinator_keys=[name]),
            lambda response: response.coordinators[0].error_code == 0,
        )
        return name

    def configure_group(self, name: str, settings: Mapping[str, str]) -> None:
        configs = [AlterableConfig(key, _SET, value) for key, value in settings.items()]
        response = self.quietly(
            IncrementalAlterConfigsRequest([AlterConfigsResource(_GROUP_RESOURCE, name, configs)])
        )
        assert response.responses[0].error_code == 0, response
        # A real broker learns of it from its controller, with a delay.
        asked = DescribeConfigsResource(_GROUP_RESOURCE, name, list(settings))
        self.wait_for(
            lambda: DescribeConfigsRequest([asked]),
            lambda said: {config.name: config.value for config in said.results[0].configs} == settings,
        )

    def produce(self, topic: str, sizes: Iterable[int] = (10,), partition: int = 0) -> None:
        """Append one batch of each size, each in a separate request."""
        for size in sizes:
            builder = BatchBuilder()
            for number in range(size):
                builder.append(b"record %d" % number, timestamp=time.time_ns() // 1_000_000)
            self.produce_batch(topic, builder, partition)

    def produce_batch(
        self, topic: str, builder: BatchBuilder, partition: int = 0, transactional_id: str | None = None
    ) -> None:
        rows = [PartitionProduceData(partition, bytes(builder.build()))]
        data = [TopicProduceData(topic_id=self.topic_ids[topic], partition_data=rows)]
        # A broker may not know yet that it is the leader.
        response = self.wait_for(
            lambda: ProduceRequest(transactional_id, -1, 10_000, data),
            lambda response: (
                response.responses[0].partition_responses[0].error_code
                not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID)
            ),
        )
        assert response.responses[0].partition_responses[0].error_code == 0, response

    def transactional_producer(self, name: str) -> InitProducerIdResponse:
        """Its id and epoch, once it has a coordinator."""
        self.wait_for(
            lambda: FindCoordinatorRequest(key_type=1, coordinator_keys=[name]),
            lambda response: response.coordinators[0].error_code == 0,
        )
        return self.wait_for(
            lambda: InitProducerIdRequest(name, 60_000), lambda response: response.error_code == 0
        )

    # --- comparable values

    def _comparable(self, value: Any, left_out: Set[str] = _LEFT_OUT, field: str = "") -> Any:
        if isinstance(value, dict):
            return {k: self._comparable(v, left_out, k) for k, v in value.items() if k not in left_out}
        if isinstance(value, list):
            if field in _SETS and all(isinstance(item, int | str) for item in value):
                return sorted(self._comparable(item) for item in value)
            return sorted((self._comparable(item, left_out) for item in value), key=_place)
        if field == "records":
            return value and [
                (batch.base_offset, batch.last_offset, batch.record_count)
                for batch in read_batches(base64.b64decode(value))
            ]
        if isinstance(value, str):
            for unique, label in self._names.items():
                value = value.replace(unique, label)
        return value


def _place(item: Any) -> Any:
    """The sort key: brokers list topics, partitions, groups and members in any order."""
    if not isinstance(item, dict):
        return 0, ""
    partition = item.get("partitionIndex", item.get("partition", 0))
    name = next((item[field] for field in _NAMING if item.get(field)), "")
    return partition, name


def codes(value: Any) -> set[int]:
    """Every error code in a response."""
    if isinstance(value, dict):
        own = {code for key, code in value.items() if key.lower().endswith("errorcode")}
        return own.union(*map(codes, value.values()))
    if isinstance(value, list):
        return set[int]().union(*map(codes, value))
    return set()
