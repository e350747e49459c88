"""Kafka's own command-line tools work with the embedded broker."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import kshare.sync
from kshare.errors import ConfigError
from kshare.testing import Broker
from tools.kafka.jars import install
from tools.kafka.tool import run_tool

pytestmark = [pytest.mark.java]

RELEASE = "4.3.1"
_TOOLS = "org.apache.kafka.tools"
_SHARE_GROUPS = f"{_TOOLS}.consumer.group.ShareGroupCommand"
_OF_WORKERS = (_SHARE_GROUPS, "--group", "workers")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as broker:
        broker.set_group_config("workers", {"share.auto.offset.reset": "earliest"})
        yield broker


def with_bootstrap(broker: Broker, main: str, *arguments: str, given: str = "") -> str:
    """The standard output of a tool."""
    return run_tool(main, "--bootstrap-server", broker.bootstrap, *arguments, given=given).stdout


def side_by_side(*calls: tuple[Any, ...]) -> list[str]:
    """The output of several tools, including errors. They run in parallel, as starting a JVM takes most of the time."""

    def run(call: tuple[Any, ...]) -> str:
        broker, main, *arguments = call
        try:
            return with_bootstrap(broker, main, *arguments)
        except subprocess.CalledProcessError as failed:
            return str(failed.stdout + failed.stderr)

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(run, calls))


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def test_topics_and_the_console(broker: Broker) -> None:
    topics = f"{_TOOLS}.TopicCommand"
    with_bootstrap(
        broker, topics, "--create", "--topic", "fresh", "--partitions", "3", "--config", "retention.ms=500000"
    )
    assert "fresh" in with_bootstrap(broker, topics, "--list").split()
    described = with_bootstrap(broker, topics, "--describe", "--topic", "fresh")
    assert "PartitionCount: 3" in described
    assert "retention.ms=500000" in described
    with_bootstrap(broker, f"{_TOOLS}.ConsoleProducer", "--topic", "fresh", given="a\nb\nc\n")
    consumed = with_bootstrap(
        broker,
        f"{_TOOLS}.consumer.ConsoleConsumer",
        *("--topic", "fresh", "--from-beginning", "--max-messages", "3", "--group", "readers"),
    )
    assert sorted(consumed.split()) == ["a", "b", "c"]
    groups = with_bootstrap(
        broker, f"{_TOOLS}.consumer.group.ConsumerGroupCommand", "--describe", "--all-groups"
    )
    assert sum(int(row[3]) for row in words(groups) if row[:2] == ["readers", "fresh"]) == 3
    with_bootstrap(broker, topics, "--delete", "--topic", "fresh")
    with pytest.raises(ConfigError, match="topic 'fresh' doesn't exist"):
        broker.records("fresh")


@pytest.mark.parametrize("transactional", [False, True])
def test_producer_performance(broker: Broker, transactional: bool) -> None:
    extra = ("--transactional-id", "tx", "--transaction-duration-ms", "50") if transactional else ()
    said = run_tool(
        f"{_TOOLS}.ProducerPerformance",
        *("--topic", "orders", "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        *("--command-property", f"bootstrap.servers={broker.bootstrap}"),
        *extra,
    ).stdout
    assert "20000 records sent" in said
    assert len(broker.records("orders")) == 20000


def test_groups_are_configured(broker: Broker) -> None:
    install(RELEASE)
    command = ("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap)
    entity = ("--entity-type", "groups", "--entity-name", "workers")
    run_tool(
        *command, "--alter", *entity, "--add-config", "share.isolation.level=read_committed", jars=RELEASE
    )
    described = run_tool(*command, "--describe", *entity, jars=RELEASE).stdout
    assert "share.isolation.level=read_committed sensitive=false" in described
    run_tool(*command, "--alter", *entity, "--delete-config", "share.isolation.level", jars=RELEASE)
    assert (
        broker.call(lambda: broker.state.configs.group("workers", "share.isolation.level"))
        == "read_uncommitted"
    )


def test_the_share_console_and_share_group_commands(broker: Broker) -> None:
    broker.produce("orders", [b"a", b"b", b"c"])
    consumed = with_bootstrap(
        broker,
        f"{_TOOLS}.consumer.ConsoleShareConsumer",
        *("--topic", "orders", "--group", "workers", "--max-messages", "3", "--timeout-ms", "60000"),
        *("--formatter-property", "print.delivery=true", "--formatter-property", "print.offset=true"),
    )
    assert re.findall(r"Offset:(\d+)\s+Delivery:(\d+)\s+(\w)", consumed) == [
        ("0", "1", "a"),
        ("1", "1", "b"),
        ("2", "1", "c"),
    ]
    group = ("--group", "workers")
    assert words(with_bootstrap(broker, _SHARE_GROUPS, "--list")) == [["workers"]]
    assert ["workers", "Empty"] in words(with_bootstrap(broker, _SHARE_GROUPS, "--list", "--state"))
    offsets = words(with_bootstrap(broker, _SHARE_GROUPS, "--describe", *group, "--offsets", "--verbose"))
    assert [row[1] for row in offsets if row[0] == "workers"] == ["orders", "orders"]
    for how in ("--dry-run", "--execute"):
        reset = with_bootstrap(
            broker, _SHARE_GROUPS, "--reset-offsets", "--to-earliest", *group, "--topic", "orders", how
        )
        assert ["workers", "orders", "0", "0"] in words(reset)
    deleted = with_bootstrap(broker, _SHARE_GROUPS, "--delete-offsets", *group, "--topic", "orders")
    assert ["orders", "Successful"] in words(deleted)
    with_bootstrap(broker, _SHARE_GROUPS, "--delete", *group)
    assert words(with_bootstrap(broker, _SHARE_GROUPS, "--list")) == []


@pytest.mark.parametrize("acknowledgement", ["--release", "--reject"])
def test_the_share_console_releases_or_rejects(broker: Broker, acknowledgement: str) -> None:
    broker.set_group_config("workers", {"share.delivery.count.limit": "2"})
    broker.produce("orders", [b"a"])
    consumer = f"{_TOOLS}.consumer.ConsoleShareConsumer"
    common = ("--topic", "orders", "--group", "workers", "--formatter-property", "print.delivery=true")
    with_bootstrap(broker, consumer, *common, "--max-messages", "1", "--timeout-ms", "60000", acknowledgement)
    broker.produce("orders", [b"b"])
    count = "2" if acknowledgement == "--release" else "1"
    after = with_bootstrap(broker, consumer, *common, "--max-messages", count, "--timeout-ms", "60000")
    found = re.findall(r"Delivery:(\d+)\s+(\w)", after)
    assert found == ([("2", "a"), ("1", "b")] if acknowledgement == "--release" else [("1", "b")])


def test_commands_on_a_group_with_members(broker: Broker) -> None:
    """Its members, states and offsets are described. Resetting its offsets and deleting it are refused."""
    broker.produce("orders", [b"a"])
    with kshare.sync.ShareConsumer(
        broker.bootstrap, group="workers", topics=["orders"], client_id="me"
    ) as consumer:
        next(iter(consumer)).accept()
        members, states, offsets, reset, deletion = side_by_side(
            (broker, *_OF_WORKERS, "--describe", "--members", "--verbose"),
            (broker, *_OF_WORKERS, "--describe", "--state", "--verbose"),
            (broker, *_OF_WORKERS, "--describe", "--offsets"),
            (broker, *_OF_WORKERS, "--reset-offsets", "--to-latest", "--topic", "orders", "--execute"),
            (broker, *_OF_WORKERS, "--delete"),
        )
    title, row = words(members)
    assert title[-1] == "ASSIGNMENT"
    assert (row[0], row[2], row[3], row[-1]) == ("workers", "/127.0.0.1", "me", "orders:0,1")
    assert words(states)[1][:5:3] == ["workers", "Stable"]
    assert ["workers", "orders", "0", "0", "0"] in words(offsets)
    assert "Share group 'workers' is not empty" in reset
    assert "Share group 'workers' is not EMPTY" in deletion


def test_the_share_console_prints_the_chosen_properties(broker: Broker) -> None:
    broker.produce("orders", [b"value"], key=b"key", headers=[("h", b"v")])
    shown = ("key", "headers", "timestamp", "partition", "offset", "delivery")
    properties = [f"print.{name}=true" for name in shown] + ["key.separator=|"]
    consumed = with_bootstrap(
        broker,
        f"{_TOOLS}.consumer.ConsoleShareConsumer",
        *("--topic", "orders", "--group", "workers", "--max-messages", "1", "--timeout-ms", "60000"),
        *(word for setting in properties for word in ("--formatter-property", setting)),
    )
    assert re.fullmatch(r"CreateTime:\d+\|Partition:0\|Offset:0\|Delivery:1\|h:v\|key\|value\n", consumed)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_console_consumer_with_the_consumer_protocol(broker: Broker, assignor: str) -> None:
    """It commits when it ends, and the next one goes on from there."""
    for values in ([b"a", b"b"], [b"c", b"d"]):
        broker.produce("orders", values)
        consumed = with_bootstrap(
            broker,
            f"{_TOOLS}.consumer.ConsoleConsumer",
            *("--topic", "orders", "--group", "readers", "--from-beginning", "--max-messages", "2"),
            *("--command-property", "group.protocol=consumer"),
            *("--command-property", f"group.remote.assignor={assignor}"),
        )
        assert sorted(consumed.split()) == [value.decode() for value in values]


def test_consumer_groups_are_described(broker: Broker) -> None:
    command = f"{_TOOLS}.consumer.group.ConsumerGroupCommand"
    group = ("--group", "readers")
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(
            with_bootstrap,
            broker,
            f"{_TOOLS}.consumer.ConsoleConsumer",
            *("--topic", "orders", *group, "--from-beginning", "--max-messages", "2"),
            *("--command-property", "group.protocol=consumer"),
        )
        state = members = listed = ""
        while not reading.done() and "Stable" not in state:
            state, members, listed = side_by_side(
                (broker, command, "--describe", *group, "--state"),
                (broker, command, "--describe", *group, "--members", "--verbose"),
                (broker, f"{_TOOLS}.GroupsCommand", "--list"),
            )
        broker.produce("orders", [b"a", b"b"])
        assert sorted(reading.result().split()) == ["a", "b"]
    (row,) = [row for row in words(state) if row[0] == "readers"]
    assert row[-3:] == ["uniform", "Stable", "1"]
    (row,) = [row for row in words(members) if row[0] == "readers"]
    assert row[3:] == ["console-consumer", "2", "2", "orders:0,1", "2", "orders:0,1"]
    assert ["readers", "Consumer", "consumer"] in words(listed)
    offsets, deleted, after = (
        side_by_side((broker, command, "--describe", *group, "--offsets"))[0],
        with_bootstrap(broker, command, "--delete", *group),
        with_bootstrap(broker, command, "--list"),
    )
    assert sum(int(row[3]) for row in words(offsets) if row[:2] == ["readers", "orders"]) == 2
    assert "was successful" in deleted
    assert words(after) == []


def test_share_consumer_performance(broker: Broker) -> None:
    for _ in range(20):
        broker.produce("orders", [b"x" * 100] * 1000)
    said = with_bootstrap(
        broker,
        f"{_TOOLS}.ShareConsumerPerformance",
        *("--topic", "orders", "--group", "workers", "--num-records", "20000", "--timeout", "60000"),
    )
    assert said.splitlines()[-1].split(", ")[5] == "20000"


def test_the_verifiable_share_consumer(broker: Broker) -> None:
    broker.produce("orders", [b"a", b"b", b"c"])
    said = with_bootstrap(
        broker,
        f"{_TOOLS}.VerifiableShareConsumer",
        *("--topic", "orders", "--group-id", "workers", "--max-messages", "3"),
    )
    assert '"name":"records_consumed","count":3' in said
    assert '"name":"offsets_acknowledged","count":3' in said
    assert '"success":true' in said
