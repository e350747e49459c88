"""Invalid arguments are refused with their names, before anything is started."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kshare import ConfigError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import CreateTopicsRequest, ShareFetchRequest
from kshare.testing import Broker


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"relase": "4.1"}, "there is no option 'relase'; did you mean release?"),
        ({"x": 1}, "there is no option 'x'; the options are topics, nodes, release, settings, min_lock_ms"),
        ({"release": "4.2"}, "release must be '4.1' or '4.3' or '4.4', not '4.2'"),
        ({"release": 4.1}, "release must be '4.1' or '4.3' or '4.4', not 4.1"),
        (
            {"topics": ["orders"]},
            'topics must map topic names to numbers of partitions, such as {"orders": 1}',
        ),
        ({"topics": "orders"}, "topics must map topic names to numbers of partitions"),
        ({"topics": {"orders": "3"}}, "topics must map topic names to numbers of partitions"),
        ({"topics": {"orders": True}}, "topics must map topic names to numbers of partitions"),
        ({"topics": {"orders": 0}}, "topics: 'orders' must have 1 partition or more, not 0"),
        ({"topics": {"or ders": 1}}, "topics: 'or ders' is not a valid topic name: use letters, digits"),
        ({"topics": {"orders": 10_001}}, "topics: 'orders' may have at most 10000 partitions, not 10001"),
        ({"nodes": 0}, "nodes must be a whole number above 0, not 0"),
        ({"nodes": "3"}, "nodes must be a whole number above 0, not '3'"),
        ({"nodes": None}, "nodes must be a whole number above 0, not None"),
        ({"settings": ["num.partitions=3"]}, "settings must map names to strings, such as"),
        ({"settings": {"num.partitions": 3}}, "settings must map names to strings, such as"),
        ({"settings": {"num.partition": "3"}}, "settings: Unknown broker config name: num.partition"),
        ({"settings": {"num.partitions": "x"}}, "settings: Invalid value x for configuration num.partitions"),
        ({"min_lock_ms": 0}, "min_lock_ms must be a whole number above 0, not 0"),
        ({"min_lock_ms": 0.5}, "min_lock_ms must be a whole number above 0, not 0.5"),
        ({"auto_create_topics": "no"}, "auto_create_topics must be True or False, not 'no'"),
        ({"clock": 5}, "clock must be a clock, such as kshare.testing.ManualClock(), not 5"),
        ({"data_dir": 5}, "data_dir must be the path of a folder, not 5"),
        ({"users": ["alice"]}, 'users must map names to passwords, such as {"alice": "secret"}, not list'),
        ({"users": {"alice": b"hush"}}, "users must map names to passwords"),
        ({"tls": True}, "tls must be an ssl.SSLContext, not True"),
        ({"tls": ssl.create_default_context()}, "tls is a context for clients; make one for servers"),
    ],
)
def test_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Broker(**options)
    assert str(refused.value).startswith(message)
    assert "hush" not in str(refused.value)


def test_optional_options_may_be_none() -> None:
    options: dict[str, Any] = dict.fromkeys(("topics", "settings", "min_lock_ms", "clock", "users", "tls"))
    with Broker(**options) as broker:
        broker.create_topic("orders")
        assert broker.records("orders") == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda broker: broker.produce("ordres", [b"1"]),
            "topic 'ordres' doesn't exist: the broker has orders, returns. Create it with create_topic",
        ),
        (
            lambda broker: broker.produce("orders", [b"1"], partition=2),
            "topic 'orders' has no partition 2 (it has 2 partitions)",
        ),
        (lambda broker: broker.produce("orders", []), "values is empty: give at least one record to produce"),
        (
            lambda broker: broker.produce("orders", b"one"),
            "values must be a list of bytes, one for each record, not b'one'",
        ),
        (
            lambda broker: broker.produce("orders", ["one"]),
            "values must be bytes, or None for a tombstone, not 'one'",
        ),
        (lambda broker: broker.produce("orders", [b"1"], key="k"), "key must be bytes or None, not 'k'"),
        (lambda broker: broker.records("ordres"), "topic 'ordres' doesn't exist"),
        (lambda broker: broker.records("ordres", partition=0), "topic 'ordres' doesn't exist"),
        (lambda broker: broker.records("orders", partition=2), "topic 'orders' has no partition 2"),
        (
            lambda broker: broker.records(["orders"]),
            "topic must be a string that is not empty, not ['orders']",
        ),
        (
            lambda broker: broker.produce("orders", [b"1"], headers={"trace": b"7"}),
            "headers must be a list of names and bytes, such as",
        ),
        (
            lambda broker: broker.produce("orders", [b"1"], headers=[("trace", "7")]),
            "headers must be a list of names and bytes, such as",
        ),
        (
            lambda broker: broker.produce("orders", [b"x" * 2_000_000]),
            "records for topic 'orders': ",
        ),
        (lambda broker: broker.create_topic("orders"), "topic 'orders': Topic 'orders' already exists."),
        (lambda broker: broker.create_topic("or ders"), "topic 'or ders': Topic name is invalid: 'or ders'"),
        (lambda broker: broker.create_topic(5), "name must be a string that is not empty, not 5"),
        (
            lambda broker: broker.create_topic("o", settings={"retention": "1"}),
            "topic 'o': Unknown topic config name: retention",
        ),
        (
            lambda broker: broker.set_group_config("g", {"foo": "1"}),
            "settings of group 'g': Unknown group config name: foo",
        ),
        (lambda broker: broker.set_group_config("g", {"foo": 1}), "settings must map names to strings, such"),
        (lambda broker: broker.set_group_config("g", "foo=1"), "settings must map names to strings, such as"),
        (
            lambda broker: broker.set_group_config(None, {}),
            "group must be a string that is not empty, not None",
        ),
        (
            lambda broker: broker.set_topic_config("orders", {"retention.ms": "soon"}),
            "settings of topic 'orders': Invalid value soon",
        ),
        (lambda broker: broker.hang_up(5), "client_id must be a string or None, not 5"),
        (lambda broker: broker.start_node(1), "broker 1 is already running"),
        (lambda broker: broker.faults.add("ShareFetch"), "api must be a request class, such as kshare.proto"),
        (
            lambda broker: broker.faults.add(ShareFetchRequest, error=3),
            "error must be a kshare.protocol.error_codes.ErrorCode, not 3: write "
            "ErrorCode.UNKNOWN_TOPIC_OR_PARTITION",
        ),
        (lambda broker: broker.faults.add(error="nope"), "error must be a kshare.protocol.error_codes.Error"),
        (lambda broker: broker.faults.add(times=0), "times must be a whole number, 1 or more, not 0"),
        (lambda broker: broker.faults.add(skip=None), "skip must be a whole number, 0 or more, not None"),
        (
            lambda broker: broker.faults.add(after_ms=0.5),
            "after_ms must be a whole number, 0 or more, not 0.5",
        ),
        (lambda broker: broker.faults.add(client=b"x"), "client must be a client id, not b'x'"),
        (lambda broker: broker.faults.add(when=True), "when must be a function, not True"),
        (lambda broker: broker.faults.add(mute=1), "mute must be True or False, not 1"),
        (lambda broker: broker.faults.add(time=3), "there is no argument 'time'; did you mean times?"),
        (
            lambda broker: broker.faults.add(),
            "the fault has no effect: add one, such as hang_up=True, or times",
        ),
        (
            lambda broker: broker.faults.add(mute=True, cut_after=3),
            "mute and cut_after exclude each other: choose one",
        ),
        (
            lambda broker: broker.faults.add(node=9, mute=True),
            "there is no broker 9: the cluster has 1 broker",
        ),
        (
            lambda broker: broker.faults.add(CreateTopicsRequest, error=ErrorCode.NOT_CONTROLLER),
            "CreateTopicsResponse has no single error field",
        ),
        (
            lambda broker: broker.delete_topic("ordres"),
            "topic 'ordres' doesn't exist: the broker has orders, returns",
        ),
        (lambda broker: broker.set_topic_config("ordres", {}), "topic 'ordres' doesn't exist"),
        (
            lambda broker: broker.create_topic("orders", "3"),
            "partitions must be a whole number above 0, not '3'",
        ),
        (
            lambda broker: broker.create_topic("o", 10_001),
            "topic 'o': at most 10000 partitions, not 10001",
        ),
        (lambda broker: broker.stop_node(2), "there is no broker 2: the cluster has 1 broker"),
        (lambda broker: broker.start_node("1"), "there is no broker '1': the cluster has 1 broker"),
        (lambda broker: broker.move_leader("orders", 0, 5), "there is no broker 5: the cluster has 1 broker"),
        (lambda broker: broker.move_leader("orders", 9, 1), "topic 'orders' has no partition 9"),
        (lambda broker: broker.move_leader("ordres", 0, 1), "topic 'ordres' doesn't exist"),
    ],
)
def test_invalid_arguments_of_methods_are_refused(call: Callable[[Broker], None], message: str) -> None:
    with Broker(topics={"orders": 2, "returns": 1}) as broker:
        with pytest.raises(ConfigError) as refused:
            call(broker)
        assert str(refused.value).startswith(message)
        assert broker.records("orders") == []


def test_broker_without_topics_says_so() -> None:
    with Broker() as broker, pytest.raises(ConfigError, match="'orders' doesn't exist: the broker has none"):
        broker.produce("orders", [b"1"])


@pytest.mark.parametrize("count", [1, 5])
def test_other_number_of_partitions_than_in_the_data_folder_is_refused(tmp_path: Path, count: int) -> None:
    with Broker(data_dir=tmp_path, topics={"orders": 3}):
        pass
    for _ in range(2):  # the folder isn't locked afterwards
        with pytest.raises(ConfigError) as refused:
            Broker(data_dir=tmp_path, topics={"orders": count}).start()
        assert str(refused.value) == (
            f"topic 'orders' has 3 partitions in the data folder, not {count}: write 3, or use another folder"
        )
    with Broker(data_dir=tmp_path, topics={"orders": 3, "returns": 2}) as broker:
        assert len(broker.state.cluster.topics["returns"].partitions) == 2


def test_unusable_data_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "folder"):
        with pytest.raises(ConfigError) as refused:
            Broker(data_dir=path).start()
        assert str(refused.value) == f"data_dir: can't use {path}: it is not a folder"
    with Broker(data_dir=tmp_path / "data"), pytest.raises(ConfigError) as refused:
        Broker(data_dir=tmp_path / "data").start()
    assert str(refused.value) == f"data_dir: can't use {tmp_path / 'data'}: another broker is using it"
    with pytest.raises(ConfigError) as refused:
        Broker(data_dir="/proc/nowhere").start()
    assert str(refused.value).startswith("data_dir: can't use /proc/nowhere: ")


def test_client_without_connections_can_be_hung_up() -> None:
    with Broker() as broker:
        broker.hang_up("nobody")
