"""What Kafka refuses at start: settings that contradict each other, unknown names and classes."""

from __future__ import annotations

import pytest

from kshare.broker.configs import Configs
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource
from kshare.broker.start_checks import AUTHORIZER, REBALANCE_PROTOCOLS
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kshare.testing import Broker
from tests.helpers.plain_client import plain_client

LOCK = "record.lock.duration.ms"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {f"group.share.min.{LOCK}": "40000"},
            f"group.share.{LOCK} (30000) must be greater than or equal to group.share.min.{LOCK} (40000)",
        ),
        (
            {f"group.share.max.{LOCK}": "20000"},
            f"group.share.max.{LOCK} (20000) must be greater than or equal to group.share.{LOCK} (30000)",
        ),
        ({"group.share.delivery.count.limit": "11"}, "group.share.max.delivery.count.limit (10) must be"),
        (
            {"group.share.partition.max.record.locks": "99"},
            "group.share.partition.max.record.locks (99) must",
        ),
        ({"group.share.session.timeout.ms": "44999"}, "group.share.session.timeout.ms (44999) must be"),
        (
            {"group.consumer.session.timeout.ms": "60001"},
            "group.consumer.max.session.timeout.ms (60000) must",
        ),
        (
            {"group.consumer.min.heartbeat.interval.ms": "20000"},
            "group.consumer.heartbeat.interval.ms (5000)",
        ),
        (
            {"group.share.min.assignment.interval.ms": "1001"},
            "group.share.assignment.interval.ms (1000) must",
        ),
        (
            {"group.share.max.heartbeat.interval.ms": "50000", "group.share.heartbeat.interval.ms": "45000"},
            "group.share.heartbeat.interval.ms (45000) must be less than group.share.session.timeout.ms (45000)",
        ),
        (
            {"group.share.max.share.sessions": "199"},
            "group.share.max.share.sessions (199) must be greater than",
        ),
        (
            {"log.retention.ms": "0"},
            "Invalid value 0 for configuration log.retention.ms: must be -1 (unlimited)",
        ),
        ({REBALANCE_PROTOCOLS: "share"}, f"{REBALANCE_PROTOCOLS}: Disabling the 'classic' protocol is not"),
        (
            {REBALANCE_PROTOCOLS: "classic,foo"},
            f"{REBALANCE_PROTOCOLS}: foo is unknown here, write classic or",
        ),
        ({"group.consumer.assignors": "uniform,foo"}, "group.consumer.assignors: foo is unknown here, write"),
        ({"group.consumer.assignors": ""}, "group.consumer.assignors must not be empty"),
        (
            {"authorizer.class.name": "foo"},
            f"authorizer.class.name: foo can't be loaded here, write {AUTHORIZER}",
        ),
        (
            {"authorizer.class.name": AUTHORIZER, "super.users": "User:root;alice"},
            "super.users: expected a string in format principalType:principalName, such as User:alice, but got alice",
        ),
    ],
)
def test_refused_as_kafka_does(settings: dict[str, str], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        Configs(settings)
    assert (caught.value.message or "").startswith(message)


def test_names_of_classes_and_all_protocols_are_accepted() -> None:
    package = "org.apache.kafka.coordinator.group.assignor"
    Configs(
        {
            "group.consumer.assignors": f"{package}.RangeAssignor, uniform",
            REBALANCE_PROTOCOLS: "classic, consumer, streams",
            "super.users": "alice",  # no authorizer reads it
        }
    )


def test_changes_at_runtime_are_checked_too() -> None:
    configs = Configs()
    for settings in ({"group.share.assignment.interval.ms": "15001"}, {"log.retention.ms": "0"}):
        with pytest.raises(RequestError):
            configs.replace(Resource.BROKER, "", settings)
    configs.replace(Resource.BROKER, "", {"group.share.assignment.interval.ms": "15000"})


def test_disabled_protocol_is_unsupported() -> None:
    with Broker(settings={REBALANCE_PROTOCOLS: "classic"}) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        with plain_client((host, int(port))) as client:
            (described,) = client.ask(ConsumerGroupDescribeRequest(["g"])).groups
            beat = client.ask(ConsumerGroupHeartbeatRequest("g", "m"))
    assert described.error_code == beat.error_code == ErrorCode.UNSUPPORTED_VERSION
