"""Settings from a copied server.properties: obeyed, without effect, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshare.broker.broker import Broker as BrokerState
from kshare.broker.configs import Configs
from kshare.broker.request_error import RequestError
from kshare.broker.server_properties import COARSER, REMOVED, WITHOUT_EFFECT, sort_properties
from kshare.broker.settings import TABLES, Resource
from kshare.errors import ConfigError
from kshare.testing import Broker, server_properties

COPIED = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.flush.interval.messages=10000
log.flush.interval.ms=1000
log.retention.hours=168
log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
compression.type=producer
log.message.timestamp.type=LogAppendTime
offsets.retention.minutes=60
listener.name.plaintext.ssl.keystore.password=hidden
"""
"""Most of it is the file that comes with Kafka 4.4."""
KNOWN = TABLES[Resource.BROKER]


def test_copied_file_is_accepted_and_obeyed_where_it_means_something() -> None:
    given = dict(line.split("=", 1) for line in COPIED.split("\n") if line)
    configs = Configs(given)
    assert configs.static == {
        "num.partitions": "1",
        "log.retention.bytes": "1073741824",
        "log.message.timestamp.type": "LogAppendTime",
        "log.retention.ms": str(168 * 3_600_000),
    }
    assert {*configs.without_effect} == {*given} - {*configs.static, "log.retention.hours"}
    assert configs.topic("t", "message.timestamp.type") == "LogAppendTime"


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.hours": "0", "log.retention.ms": "4"}, 4),
        ({}, 604_800_000),
    ],
)
def test_finest_unit_takes_precedence(given: dict[str, str], retention_ms: int) -> None:
    assert Configs(given).topic_number("t", "retention.ms") == retention_ms
    assert Configs(given).topic_number("t", "segment.ms") == 604_800_000


@pytest.mark.parametrize("value", ["many", "-2", "0.5", "0"])
def test_wrong_value_in_a_coarser_unit_is_refused(value: str) -> None:
    with pytest.raises(RequestError, match=f"Invalid value {value} for configuration log.retention.hours"):
        Configs({"log.retention.hours": value})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("num.partition", "Unknown broker config name: num.partition. Did you mean num.partitions?"),
        ("KAFKA_LOG_DIRS", "Unknown broker config name: KAFKA_LOG_DIRS. Did you mean log.dirs?"),
        ("zookeeper.connect", "zookeeper.connect was removed in Kafka 4.0: leave it out"),
        ("log.message.format.version", "log.message.format.version was removed in Kafka 4.0: leave it out"),
        ("nonsense", "Unknown broker config name: nonsense"),
    ],
)
def test_unknown_name_is_refused_with_advice(name: str, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        sort_properties({name: "secret"}, KNOWN)
    assert caught.value.message == message


def test_settings_without_effect_are_said_once_and_without_values(caplog: pytest.LogCaptureFixture) -> None:
    with Broker(settings={"log.dirs": "/secret", "ssl.key.password": "secret"}) as broker:
        broker.create_topic("t")
    (said,) = [record.getMessage() for record in caplog.records if record.name == "kshare.broker"]
    assert said == "broker settings without effect in the embedded broker: log.dirs, ssl.key.password"


def test_setting_of_a_later_release_has_no_effect() -> None:
    later = {"errors.deadletterqueue.auto.create.topics.enable": "true"}
    assert BrokerState(settings=later, release="4.3").configs.without_effect == (*later,)
    assert BrokerState(settings=later, release="4.4").configs.without_effect == ()


def test_each_name_is_listed_once() -> None:
    assert not WITHOUT_EFFECT & {*KNOWN, *COARSER}
    assert not REMOVED & {*WITHOUT_EFFECT, *KNOWN, *COARSER}


def test_file_is_read_as_java_does(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "# process.roles=controller \\\n num.partitions = 3 \r\n! no\nsuper.users:User\\:root;\\\n  User:admin\n"
        "log.dirs=C:\\\\logs\\u0041\nnum.partitions=4\n"
    )
    assert server_properties(file) == {
        "num.partitions": "4",
        "super.users": "User:root;User:admin",
        "log.dirs": "C:\\logsA",
    }
    file.write_text(COPIED)
    with Broker(settings=server_properties(str(file)) | {"num.partitions": "2"}) as broker:
        assert broker.state.configs.broker("num.partitions") == "2"
        assert broker.state.configs.broker("log.message.timestamp.type") == "LogAppendTime"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "\nnum.partition=secret",
            "FILE: Unknown broker config name: num.partition. Did you mean num.partitions?",
        ),
        ("num.partitions=x", "FILE: Invalid value x for configuration num.partitions: must be a number"),
        ("log.retention.hours=0", "FILE: Invalid value 0 for configuration log.retention.hours: must be -1"),
        ("node.id=1\nsecret", "FILE, line 2: expected name=value"),
        ("caf\udce9", "FILE is not a properties file: not valid UTF-8 (byte 3)"),
        (None, "can't read FILE: No such file or directory"),
    ],
)
def test_error_in_a_file_names_the_file(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "server.properties"
    if text is not None:
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError) as caught:
        server_properties(file)
    assert str(caught.value).startswith(message.replace("FILE", str(file)))
    assert "secret" not in str(caught.value)
