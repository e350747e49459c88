"""Dead-letter topics to which no dead letter would be written: names are refused, and all others are logged."""

from __future__ import annotations

import logging

import pytest

from kshare import ConfigError
from kshare.broker.settings import Resource
from kshare.testing import Broker
from tests.helpers.rejecting import reject

_SETTINGS = "errors.deadletterqueue."
NAME = f"{_SETTINGS}topic.name"
EARLIEST = {"share.auto.offset.reset": "earliest"}


def test_name_without_the_prefix_is_refused(kshare_broker: Broker) -> None:
    with pytest.raises(ConfigError) as refused:
        kshare_broker.set_group_config("shippers", {NAME: "grave"})
    assert str(refused.value) == (
        f"{NAME} of group shippers is 'grave', but must begin with 'dlq.' "
        f"(the broker's {NAME}.prefix): brokers write no dead letters to other topics"
    )
    kshare_broker.set_group_config("shippers", {NAME: "dlq.grave"})
    kshare_broker.set_group_config("shippers", {NAME: ""})


def test_prefix_is_the_brokers_setting() -> None:
    with Broker(settings={f"{NAME}.prefix": "dead-"}) as broker:
        broker.set_group_config("shippers", {NAME: "dead-orders"})
        with pytest.raises(ConfigError, match="must begin with 'dead-'"):
            broker.set_group_config("shippers", {NAME: "dlq.orders"})


def test_wrong_name_set_by_a_client_is_accepted_and_logged(
    kshare_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.create_topic("grave", settings={f"{_SETTINGS}group.enable": "true"})
    chosen = EARLIEST | {NAME: "grave"}
    kshare_broker.call(lambda: kshare_broker.state.configs.replace(Resource.GROUP, "shippers", chosen))
    kshare_broker.produce("orders", [b"1", b"2"])
    with caplog.at_level(logging.WARNING, "kshare.broker"):
        reject(kshare_broker.bootstrap, "shippers", "orders", 2)
    assert kshare_broker.records("grave") == []
    (line,) = caplog.messages
    assert line.startswith("group shippers: no dead letters are written to topic grave: its name must begin")


@pytest.mark.parametrize(
    ("topics", "reason"),
    [
        ({"orders": 1, "dlq.orders": 1}, f"it needs {_SETTINGS}group.enable=true"),
        ({"orders": 1}, "it doesn't exist"),
    ],
)
def test_topic_that_gets_no_dead_letters_is_logged_once(
    topics: dict[str, int], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker(topics=topics) as broker, caplog.at_level(logging.WARNING, "kshare.broker"):
        broker.set_group_config("shippers", EARLIEST | {NAME: "dlq.orders"})
        for value in (b"1", b"2"):
            broker.produce("orders", [value])
            reject(broker.bootstrap, "shippers", "orders", 1)
        assert caplog.messages == [
            f"group shippers: no dead letters are written to topic dlq.orders: {reason}"
        ]


def test_topic_that_is_enabled_gets_dead_letters(
    kshare_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.create_topic("dlq.orders", settings={f"{_SETTINGS}group.enable": "true"})
    kshare_broker.set_group_config(
        "shippers", EARLIEST | {NAME: "dlq.orders", f"{_SETTINGS}copy.record.enable": "true"}
    )
    kshare_broker.produce("orders", [b"1", b"2"])
    with caplog.at_level(logging.WARNING, "kshare.broker"):
        reject(kshare_broker.bootstrap, "shippers", "orders", 2)
    assert [record.value for record in kshare_broker.records("dlq.orders")] == [b"1", b"2"]
    assert caplog.messages == []
