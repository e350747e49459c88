"""Every API in every version that a release offers: the response can be encoded in that version, and decoded.

The requests have one element in each list and name a topic that exists, so that the responses have contents. If a
response has a field that the version can't carry, the connection is closed, and the client asks again for ever.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from kshare.broker.profiles import RELEASES, Release, profile
from kshare.protocol import by_name, messages
from kshare.protocol.api_keys import API_NAMES
from kshare.protocol.envelopes import decode_response, encode_request
from kshare.protocol.message import Request
from kshare.testing import Broker
from tests.broker.batches import batch
from tests.broker.raw import Raw
from tools.kgen.model import Field, Struct, read_folder

REQUESTS = {
    message.api_key: message
    for message in read_folder(Path(__file__).parents[2] / "schemas")
    if message.kind == "request"
}
TOPIC, GROUP = "orders", "workers"
MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
USUAL: dict[str, object] = {
    "Acks": -1,
    "ClusterId": None,
    "GroupId": GROUP,
    "GroupIds": [GROUP],
    "Groups": [GROUP],
    "GroupsNames": [GROUP],
    "IncludeAuthorizedOperations": True,
    "IncludeClusterAuthorizedOperations": True,
    "IncludeTopicAuthorizedOperations": True,
    "MaxBytes": 1 << 20,
    "MaxRecords": 10,
    "MemberId": MEMBER,
    "PartitionMaxBytes": 1 << 20,
    "PatternTypeFilter": 1,
    "ProducerId": 1000,
    "ProtocolType": "consumer",
    "RebalanceTimeoutMs": 10_000,
    "ReplicaId": -1,
    "ResourceName": TOPIC,
    "ResourceType": 2,
    "ResourceTypeFilter": 1,
    "SessionTimeoutMs": 10_000,
    "SubscribedTopicNames": [TOPIC],
    "Topic": TOPIC,
    "TopicName": TOPIC,
    "TopicNames": [TOPIC],
    "TransactionTimeoutMs": 10_000,
    "TransactionalId": None,
}
"""Values by the name of the field. Other fields are zero or empty, or have one element."""
SPECIAL: dict[str, dict[str, object]] = {
    "AddOffsetsToTxn": {"TransactionalId": "t"},
    "AddPartitionsToTxn": {"TransactionalId": "t", "V3AndBelowTransactionalId": "t"},
    "AlterConfigs": {"Name": "retention.ms", "Value": "1000"},
    "CreateAcls": {"ResourcePatternType": 3, "Operation": 3, "PermissionType": 3, "Host": "*"},
    "CreatePartitions": {"Assignments": None, "Count": 2},
    "CreateTopics": {
        "Name": "another",
        "Assignments": [],
        "Configs": [],
        "NumPartitions": 1,
        "ReplicationFactor": 1,
    },
    "DescribeAcls": {"ResourceNameFilter": None, "PrincipalFilter": None, "HostFilter": None},
    "DescribeCluster": {"EndpointType": 1},
    "DescribeConfigs": {"ConfigurationKeys": None},
    "DescribeTopicPartitions": {"Cursor": None, "ResponsePartitionLimit": 10},
    "EndTxn": {"TransactionalId": "t"},
    "Fetch": {"ForgottenTopicsData": []},
    "FindCoordinator": {"Key": GROUP, "CoordinatorKeys": [GROUP]},
    "IncrementalAlterConfigs": {"Name": "retention.ms", "Value": "1000"},
    "InitProducerId": {"ProducerId": -1, "ProducerEpoch": -1},
    "JoinGroup": {"MemberId": "", "GroupInstanceId": "one"},
    "ListConfigResources": {"ResourceTypes": []},
    "ListGroups": {"StatesFilter": [], "TypesFilter": []},
    "OffsetCommit": {"MemberId": "", "GenerationIdOrMemberEpoch": -1, "GroupInstanceId": None},
    "ShareFetch": {"AcknowledgementBatches": [], "ForgottenTopicsData": []},
    "TxnOffsetCommit": {"TransactionalId": "t"},
}
"""The same for single APIs."""


@pytest.mark.parametrize("api_key", profile("4.4").versions, ids=API_NAMES.get)
@pytest.mark.parametrize("release", RELEASES)
def test_every_offered_version_has_response(release: Release, api_key: int) -> None:
    first, last = profile(release).versions[api_key]
    cls: Any = getattr(messages, messages.REQUESTS[api_key])
    first = max(first, cls.VERSIONS[0])  # the oldest of Produce are offered in name only, as in Kafka
    with Broker(topics={TOPIC: 1}, release=release) as broker:
        broker.produce(TOPIC, [b"a record"])
        topic_id = broker.call(lambda: broker.state.cluster.topics[TOPIC].id)
        for version in range(first, last + 1):
            request = made(cls, version, topic_id)
            with Raw(broker) as raw:
                raw.send(encode_request(request, version, 7, "test"))
                frame = raw.frame()
            assert frame is not None, f"v{version}: no response, the connection was closed"
            assert decode_response(cls.RESPONSE, version, frame)[0] == 7


def made(cls: type[Request[Any]], version: int, topic_id: bytes) -> Request[Any]:
    special = SPECIAL.get(REQUESTS[cls.API_KEY].api_name, {})
    values = {**USUAL, "TopicId": base64.urlsafe_b64encode(topic_id).decode().rstrip("="), **special}
    if cls.NAME == "JoinGroupRequest":
        values["GroupId"] = (
            f"{GROUP}-{version}"  # each would wait for the member that another version announced
        )
    request = by_name.from_json(cls.NAME, version, filled(REQUESTS[cls.API_KEY].body, version, values))
    assert isinstance(request, Request)
    return request


def filled(struct: Struct, version: int, values: dict[str, object]) -> dict[str, object]:
    """The fields that this version has, in the JSON form of Kafka's converters."""
    return {
        field.json_name: value_of(field, version, values)
        for field in struct.fields
        if version in field.versions
    }


def value_of(field: Field, version: int, values: dict[str, object]) -> object:
    if field.name in values and not (field.type.is_array and field.type.struct and values[field.name]):
        chosen = values[field.name]
        return "" if chosen is None and version not in field.nullable else chosen
    if field.entity == "topicName":
        return [TOPIC] if field.type.is_array else TOPIC
    value: object
    if field.type.struct:
        value = filled(field.type.struct, version, values)
    elif field.type.name == "string":
        value = "x"
    elif field.type.name == "records":
        value = base64.b64encode(batch()).decode()
    elif field.type.name == "uuid":
        value = MEMBER
    elif field.type.name == "bytes":
        value = ""
    elif field.type.name == "bool":
        value = False
    else:
        value = 0
    return [value] if field.type.is_array else value
