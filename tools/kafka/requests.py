"""Requests to test brokers: list nodes, check whether share groups are usable, create topics, set and read configs."""

from __future__ import annotations

import base64
import struct
import time
import uuid
from collections.abc import Collection, Mapping
from enum import IntEnum

from tools.kafka import wire
from tools.kafka.wire import NO_TAGS, Address, array, text

_FIND_COORDINATOR, _CREATE_TOPICS, _DESCRIBE_CONFIGS, _INCREMENTAL_ALTER_CONFIGS = 10, 19, 32, 44
_DESCRIBE_CLUSTER, _SHARE_GROUP_HEARTBEAT, _SHARE_FETCH = 60, 76, 78
_GROUP_KEY, _SHARE_KEY = 0, 2
_SET = 0
_PROBE_GROUP = "kshare-rig-probe"
_TIMEOUT_MS = 10_000
_LAST_HEARTBEAT_DEADLINE_S = 10.0


class Resource(IntEnum):
    """The type of a config resource, as its code in requests."""

    TOPIC = 2
    CLIENT_METRICS = 16
    GROUP = 32


class RefusedError(RuntimeError):
    """A broker responded with an error code."""

    def __init__(self, action: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{action}: error {code}{f' ({message})' if message else ''}")
        self.code = code


def known_nodes(address: Address, deadline: float | None = None) -> dict[int, Address]:
    """The live brokers according to the one at `address`: their ids, and their addresses on that listener."""
    response = wire.ask(address, _DESCRIBE_CLUSTER, 0, b"\0" + NO_TAGS, deadline)
    response.skip(4)
    _raise_for(response.int16(), response.text(), "DescribeCluster")
    response.text()
    response.int32()
    nodes = {}
    for _ in range(response.array_length()):
        node_id = response.int32()
        nodes[node_id] = (response.text() or "", response.int32())
        response.text()
        response.skip_tags()
    return nodes


def prove_share_groups(address: Address) -> None:
    """Join and leave a share group, and look up the share coordinator. Raises while share groups aren't usable.

    Looking up the coordinators creates both internal topics.
    """
    state_key = f"{_PROBE_GROUP}:{_short(uuid.uuid4())}:0"
    _find_coordinator(address, _SHARE_KEY, state_key)
    coordinator = _find_coordinator(address, _GROUP_KEY, _PROBE_GROUP)
    member = _short(uuid.uuid4())
    _heartbeat(coordinator, member, 0)
    # Otherwise the group would keep a dead member until its session times out.
    deadline = time.monotonic() + _LAST_HEARTBEAT_DEADLINE_S
    while True:
        try:
            return _heartbeat(coordinator, member, -1)
        except (OSError, RefusedError):
            if time.monotonic() > deadline:
                raise


def prove_responses(address: Address, deadline: float) -> None:
    """Raise OSError unless this broker responds to DescribeCluster and to an empty ShareFetch, even with an error."""
    for name, api, version, body in (
        ("DescribeCluster", _DESCRIBE_CLUSTER, 0, b"\0" + NO_TAGS),
        ("ShareFetch", _SHARE_FETCH, 1, _fetch_of_nothing()),
    ):
        try:
            wire.ask(address, api, version, body, deadline)
        except OSError as problem:
            raise OSError(f"no response to {name}: {problem}") from problem


def _fetch_of_nothing() -> bytes:
    """A request that opens a share session without partitions, which ends with its connection."""
    limits = struct.pack(
        ">iiiiii", 0, 0, 0, 1, 1, 1
    )  # epoch, wait, least and most bytes, records, batch size
    return text(_PROBE_GROUP) + text(_short(uuid.uuid4())) + limits + array(()) + array(()) + NO_TAGS


def create_topic(
    address: Address, name: str, partitions: int, replicas: int, settings: Mapping[str, str]
) -> None:
    """Create a topic. Any broker forwards this to the controller."""
    configs = array(text(key) + text(value) + NO_TAGS for key, value in settings.items())
    topic = text(name) + struct.pack(">ih", partitions, replicas) + array(()) + configs + NO_TAGS
    response = wire.ask(
        address, _CREATE_TOPICS, 5, array([topic]) + struct.pack(">i?", _TIMEOUT_MS, False) + NO_TAGS
    )
    response.skip(4)
    response.array_length()
    response.text()
    _raise_for(response.int16(), response.text(), f"creating the topic {name}")


def set_config(address: Address, kind: Resource, name: str, settings: Mapping[str, str]) -> None:
    """Set configurations, such as a group's share.auto.offset.reset. Brokers apply them a moment later."""
    configs = array(text(key) + bytes([_SET]) + text(value) + NO_TAGS for key, value in settings.items())
    resource = bytes([kind]) + text(name) + configs + NO_TAGS
    response = wire.ask(address, _INCREMENTAL_ALTER_CONFIGS, 1, array([resource]) + b"\0" + NO_TAGS)
    response.skip(4)
    response.array_length()
    _raise_for(response.int16(), response.text(), f"configuring {name}")


def read_config(address: Address, kind: Resource, name: str, keys: Collection[str]) -> dict[str, str | None]:
    """The values of these configurations on the broker at `address`."""
    resource = bytes([kind]) + text(name) + array(map(text, keys)) + NO_TAGS
    response = wire.ask(address, _DESCRIBE_CONFIGS, 4, array([resource]) + bytes(2) + NO_TAGS)
    response.skip(4)
    response.array_length()
    _raise_for(response.int16(), response.text(), f"reading the configuration of {name}")
    response.skip(1)
    response.text()
    found = {}
    for _ in range(response.array_length()):
        key = response.text() or ""
        found[key] = response.text()
        response.skip(3)  # read-only, source, sensitive
        response.array_length()  # synonyms, not requested
        response.skip(1)
        response.text()
        response.skip_tags()
    return found


def _find_coordinator(address: Address, kind: int, key: str) -> Address:
    response = wire.ask(address, _FIND_COORDINATOR, 6, bytes([kind]) + array([text(key)]) + NO_TAGS)
    response.skip(4)
    response.array_length()
    response.text()
    response.int32()
    found = (response.text() or "", response.int32())
    _raise_for(response.int16(), response.text(), f"finding the coordinator of {key}")
    return found


def _heartbeat(coordinator: Address, member: str, epoch: int) -> None:
    body = text(_PROBE_GROUP) + text(member) + struct.pack(">i", epoch) + text(None)
    # Subscribing is required; the topic need not exist.
    body += array([text(_PROBE_GROUP)]) + NO_TAGS
    response = wire.ask(coordinator, _SHARE_GROUP_HEARTBEAT, 1, body)
    response.skip(4)
    _raise_for(response.int16(), response.text(), "joining a share group")


def _raise_for(code: int, message: str | None, action: str) -> None:
    if code:
        raise RefusedError(action, code, message)


def _short(value: uuid.UUID) -> str:
    """A uuid in Kafka's format."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
