"""`kshare doctor` with one problem in the cluster: it reports it, and which command solves it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from kshare import sync
from kshare.admin.routing import Router
from kshare.broker.profiles import Release
from kshare.broker.settings import Resource
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.reachability import listeners
from kshare.installation import mend
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Request
from kshare.protocol.messages import (
    ApiVersionsRequest,
    CreatePartitionsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeQuorumRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    ShareFetchRequest,
)
from kshare.protocol.messages.create_partitions_request import CreatePartitionsTopic
from kshare.protocol.messages.describe_configs_response import DescribeConfigsResourceResult
from kshare.testing import Broker
from tests.cli.running import DEADLINE, KSHARE, ROOT, Done, Kshare, without_colours
from tests.cli.terminals import on_terminal
from tests.helpers.plain_client import plain_client

STATE = "__share_group_state"
GROUP = "shippers"
READ, DESCRIBE = 3, 8
Change = Callable[[Any], None]


@pytest.fixture(autouse=True)
def installation_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """However these tests run, they report only problems of the cluster."""
    monkeypatch.setattr("kshare.fast.IS_ON", True)
    monkeypatch.setattr("kshare.installation.is_compiled", lambda: True)


@pytest.fixture
def broker(kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Broker:
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", kshare_broker.bootstrap)
    kshare_broker.create_topic("orders", 2)
    kshare_broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
    return kshare_broker


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> Any:
    with Broker(nodes=3) as broker:
        monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        yield broker


def plant(broker: Broker, api: type[Request[Any]], change: Change, node: int | None = None) -> None:
    broker.faults.add(api, times=None, node=node, change=change)


def examine(run: Kshare, *words: str) -> list[dict[str, Any]]:
    """All findings that aren't ok."""
    done: Done = run("doctor", *words, "--json")
    found: list[dict[str, Any]] = json.loads(done.out)
    problems = [finding for finding in found if finding["level"] == "problem"]
    assert done.code == (1 if problems else 0)
    assert bool(done.err) == bool(problems)
    return [finding for finding in found if finding["level"] != "ok"]


def only(run: Kshare, level: str, check: str, text: str, *words: str) -> list[str]:
    """Assert that there is one such finding; returns what to do about it."""
    (found,) = examine(run, *(words or ("--group", GROUP)))
    assert (found["level"], found["check"]) == (level, check)
    assert text in found["text"]
    todo: list[str] = found["todo"]
    return todo


def test_healthy_cluster(broker: Broker, run: Kshare) -> None:
    done = run("doctor", "--group", GROUP, "--topic", "orders")
    assert (done.code, done.err) == (0, "")
    assert {line.split()[0] for line in done.out.splitlines() if not line.startswith(" ")} == {"ok"}
    checks = (
        "bootstrap",
        "listeners",
        "share groups",
        "internal topics",
        "clock",
        "rights",
        f"group {GROUP}",
    )
    for check in checks:
        assert f"{check}: " in done.out


def test_uncompiled_installation(broker: Broker, run: Kshare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshare.installation.is_compiled", lambda: False)
    (command,) = only(run, "warning", "installation", "modules are not compiled")
    assert command == mend()


def test_fast_paths_switched_off(broker: Broker, run: Kshare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshare.fast.IS_ON", False)
    (command,) = only(run, "warning", "installation", "fast paths are switched off (KSHARE_FAST=0)")
    assert command == "unset KSHARE_FAST"


# --- connecting


def test_no_broker_reachable(run: Kshare, free_tcp_port: int) -> None:
    todo = only(run, "problem", "bootstrap", "refused", "-b", f"127.0.0.1:{free_tcp_port}")
    assert todo == []


def test_one_bootstrap_address_unreachable(broker: Broker, run: Kshare, free_tcp_port: int) -> None:
    servers = f"{broker.bootstrap},127.0.0.1:{free_tcp_port}"
    only(
        run,
        "warning",
        "bootstrap",
        f"start the broker at 127.0.0.1:{free_tcp_port}, or",
        "-b",
        servers,
        "--group",
        GROUP,
    )


@pytest.mark.lengthy
def test_unreachable_advertised_address(three: Broker, run: Kshare, free_tcp_port: int) -> None:
    def send_astray(response: Any) -> None:
        for broker in response.brokers:
            if broker.node_id == 3:
                broker.port = free_tcp_port

    plant(three, MetadataRequest, send_astray)
    todo = only(run, "problem", "listeners", f"broker 3 advertises 127.0.0.1:{free_tcp_port}")
    assert todo[-1] == f"advertised.listeners=PLAINTEXT://HOST:{free_tcp_port}"


def test_brokers_advertise_the_same_address(three: Broker, run: Kshare) -> None:
    def gather(response: Any) -> None:
        for broker in response.brokers:
            broker.port = int(three.bootstrap.rpartition(":")[2])

    plant(three, MetadataRequest, gather)
    found = examine(run, "--group", GROUP)[0]
    assert (found["level"], found["check"]) == ("problem", "listeners")
    assert "brokers 1, 2, 3 all advertise 127.0.0.1:" in found["text"]


def test_bootstrap_addresses_of_two_clusters(three: Broker, run: Kshare) -> None:
    """The first request goes to any broker, so all but one agree."""

    def rename(response: Any) -> None:
        response.cluster_id = f"{response.cluster_id}-2"

    plant(three, MetadataRequest, rename, node=2)
    found = examine(run, "--group", GROUP)
    assert {finding["check"] for finding in found} == {"listeners"}
    assert all("two clusters share addresses" in finding["text"] for finding in found)


@pytest.mark.anyio
async def test_advertised_localhost(anyio_backend: str) -> None:
    pool = Pool(NetSettings.parse("kafka.example:9092"))
    info = ClusterInfo(pool, Router(pool, 1), nodes={1: ("localhost", 9092), 2: ("kafka-2.example", 9092)})
    (found,) = [listener async for listener in listeners(info)]
    assert "broker 1 advertises localhost:9092" in found.text
    assert found.todo[-1] == "advertised.listeners=PLAINTEXT://kafka.example:9092"


# --- support of share groups


def test_broker_without_share_groups(three: Broker, run: Kshare) -> None:
    def forget(response: Any) -> None:
        response.api_keys = [key for key in response.api_keys if key.api_key != ShareFetchRequest.API_KEY]

    plant(three, ApiVersionsRequest, forget, node=2)
    only(run, "problem", "share groups", "broker 2 has no ShareFetch")


def test_brokers_of_different_releases(three: Broker, run: Kshare) -> None:
    def age(response: Any) -> None:
        for key in response.api_keys:
            if key.api_key in (78, 79):
                key.max_version = 1

    plant(three, ApiVersionsRequest, age, node=3)
    only(run, "warning", "share groups", "brokers 3 are older than the others")


def test_release_with_a_known_deadlock(monkeypatch: pytest.MonkeyPatch, run: Kshare) -> None:
    with Broker(release="4.1") as broker:
        monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        only(run, "warning", "share groups", "broker 1 runs Kafka 4.1: 4.1.x and 4.2.0 have a known deadlock")


def test_release_that_may_have_a_known_deadlock(broker: Broker, run: Kshare) -> None:
    """4.2.0 and 4.2.1 report the same features."""

    def be_4_2(response: Any) -> None:
        for feature in response.supported_features:
            if feature.name == "metadata.version":
                feature.max_version = 29

    plant(broker, ApiVersionsRequest, be_4_2)
    only(run, "unknown", "share groups", "broker 1 runs Kafka 4.2, exact release unknown")


@pytest.mark.lengthy
def test_release_that_skips_records_of_new_partitions(monkeypatch: pytest.MonkeyPatch, run: Kshare) -> None:
    with Broker(release="4.3") as broker:
        monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "latest"})
        assert examine(run, "--group", GROUP) == []
        broker.create_topic("orders", 2)
        with sync.ShareConsumer(broker.bootstrap, group=GROUP, topics=["orders"]) as consumer:
            consumer.next_batch(2.0)
        said = run("doctor", "--group", GROUP).out
        assert f"ok       group {GROUP}: share.auto.offset.reset is latest: before you add partitions" in said
        assert "KAFKA-20742" in said
        add_partitions(broker, "orders", 4)
        (command,) = only(
            run, "warning", f"group {GROUP}", "its members haven't noticed orders[2] and 1 more yet, and"
        )
        assert f"config set {GROUP} share.auto.offset.reset=earliest" in command
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        assert examine(run, "--group", GROUP) == []


def add_partitions(broker: Broker, topic: str, count: int) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    wanted = CreatePartitionsTopic(topic, count, assignments=None)
    with plain_client((host, int(port))) as client:
        response = client.ask(CreatePartitionsRequest([wanted], timeout_ms=10_000))
    assert response.results[0].error_code == 0


@pytest.mark.parametrize("can_be_switched_on", [True, False])
def test_share_groups_switched_off(broker: Broker, run: Kshare, can_be_switched_on: bool) -> None:
    def switch_off(response: Any) -> None:
        response.finalized_features = []
        if not can_be_switched_on:
            response.supported_features = []

    plant(broker, ApiVersionsRequest, switch_off)
    text = "share.version is 0" if can_be_switched_on else "upgrade them to Kafka 4.1"
    todo = only(run, "problem", "share groups", text)
    command = f"kafka-features.sh --bootstrap-server {broker.bootstrap} upgrade --feature share.version=1"
    assert todo == ([command] if can_be_switched_on else [])


# --- internal topics


def say_of_broker(**settings: str) -> Change:
    def say(response: Any) -> None:
        for result in response.results:
            if result.resource_type == Resource.BROKER:
                result.configs += [
                    DescribeConfigsResourceResult(name.replace("_", "."), value)
                    for name, value in settings.items()
                ]

    return say


def test_state_topic_needs_more_replicas_than_brokers(broker: Broker, run: Kshare) -> None:
    plant(broker, DescribeConfigsRequest, say_of_broker(share_coordinator_state_topic_replication_factor="3"))
    todo = only(run, "problem", "internal topics", "it needs 3 replicas, but there is 1 broker")
    assert todo[1:] == [
        "share.coordinator.state.topic.replication.factor=1",
        "share.coordinator.state.topic.min.isr=1",
    ]


def test_state_topic_needs_more_in_sync_replicas_than_it_has(broker: Broker, run: Kshare) -> None:
    settings = say_of_broker(
        share_coordinator_state_topic_replication_factor="1", share_coordinator_state_topic_min_isr="2"
    )
    plant(broker, DescribeConfigsRequest, settings)
    todo = only(run, "problem", "internal topics", "will have 1 replicas, but 2 must be in sync")
    assert todo[-1] == "share.coordinator.state.topic.min.isr=1"


def state_topic(broker: Broker, change: Change) -> None:
    """The topic exists with three replicas. `change` alters its first partition."""

    def tell(response: Any) -> None:
        for topic in response.topics:
            if topic.name == STATE:
                for row in topic.partitions:
                    row.replica_nodes, row.isr_nodes = [1, 2, 3], [1, 2, 3]
                change(topic.partitions[0])

    broker.create_topic(STATE, 2, {"min.insync.replicas": "2"})
    plant(broker, MetadataRequest, tell)


@pytest.mark.lengthy
def test_partitions_without_a_leader(three: Broker, run: Kshare) -> None:
    def orphan(row: Any) -> None:
        row.leader_id, row.isr_nodes = -1, [3]

    state_topic(three, orphan)
    only(run, "problem", "internal topics", "1 of 2 partitions have no leader")


def test_too_few_replicas_in_sync(three: Broker, run: Kshare) -> None:
    def leave(row: Any) -> None:
        row.isr_nodes = [1]

    state_topic(three, leave)
    only(run, "problem", "internal topics", "asks for (2): nothing can be written; start brokers 2, 3")


def test_min_insync_replicas_above_the_replication_factor(three: Broker, run: Kshare) -> None:
    def shrink(row: Any) -> None:
        row.replica_nodes, row.isr_nodes = [1], [1]

    state_topic(three, shrink)
    found = examine(run, "--group", GROUP)
    assert [finding["level"] for finding in found] == ["problem", "warning"]
    (command,) = found[0]["todo"]
    assert command.endswith(f"--entity-name {STATE} --add-config min.insync.replicas=1")
    assert "while its broker is down, groups make no progress" in found[1]["text"]


def test_replica_out_of_sync(three: Broker, run: Kshare) -> None:
    def lag(row: Any) -> None:
        row.isr_nodes = [1, 2]

    state_topic(three, lag)
    only(run, "warning", "internal topics", "1 of 2 partitions lack replicas on broker 3")


# --- clocks


@pytest.mark.parametrize(("shift", "words"), [(90_000, "s ahead of"), (-90_000, "s behind")])
def test_clock_difference(broker: Broker, run: Kshare, shift: int, words: str) -> None:
    def turn(response: Any) -> None:
        response.topics[0].partitions[0].current_voters[0].last_fetch_timestamp += shift

    plant(broker, DescribeQuorumRequest, turn)
    only(run, "warning", "clock", words)


def test_clock_cannot_be_checked(broker: Broker, run: Kshare) -> None:
    def refuse(response: Any) -> None:
        response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    plant(broker, DescribeQuorumRequest, refuse)
    (command,) = only(run, "unknown", "clock", "without Describe on cluster")
    assert command.endswith("--operation Describe --cluster")


@pytest.mark.lengthy
def test_cluster_that_leaves_requests_without_response_is_not_healthy(
    broker: Broker, run: Kshare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshare.doctor.examining_router._FIRST_LIMIT_S", 0.5)
    broker.faults.add(DescribeConfigsRequest, times=None, swallow=True)
    first, *others = examine(run, "--group", GROUP)
    assert (first["check"], first["level"]) == ("internal topics", "problem")
    assert "didn't respond to DescribeConfigsRequest within 0.5 s" in first["text"]
    assert {"settings", "dead letters"} <= {other["check"] for other in others}


# --- permissions


def test_missing_permission(broker: Broker, run: Kshare) -> None:
    def on_topics(response: Any) -> None:
        for topic in response.topics:
            topic.topic_authorized_operations = 1 << DESCRIBE

    def on_groups(response: Any) -> None:
        response.groups[0].authorized_operations = 1 << READ | 1 << DESCRIBE

    plant(broker, MetadataRequest, on_topics)
    plant(broker, DescribeGroupsRequest, on_groups)
    words = ("--group", GROUP, "--topic", "orders")
    (command,) = only(run, "problem", "rights", "User:ANONYMOUS may not read topic orders", *words)
    assert command.endswith("--operation Read --topic orders")


def test_nonexistent_topic(broker: Broker, run: Kshare) -> None:
    words = ("--group", GROUP, "--topic", "oders")
    (command,) = only(run, "problem", "rights", "topic oders doesn't exist", *words)
    assert command == f"kshare topics create oders --bootstrap-server {broker.bootstrap}"
    (found,) = examine(run, *words)
    assert found["text"] == "topic oders doesn't exist; did you mean 'orders'?"


def test_group_without_read_permission(broker: Broker, run: Kshare) -> None:
    """Describing a group's settings needs another permission."""

    def refuse(response: Any) -> None:
        response.coordinators[0].error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    plant(broker, FindCoordinatorRequest, refuse)
    found = examine(run, "--group", GROUP)
    assert (found[0]["check"], found[0]["text"]) == ("rights", f"User:ANONYMOUS may not read group {GROUP}")
    assert found[0]["todo"][0].endswith(f"--operation Read --group {GROUP}")
    assert {finding["level"] for finding in found[1:]} == {"unknown"}
    assert [finding["text"] for finding in found[2:]] == ["not checked, for the same reason as settings"] * 3


def test_no_group_or_topic_given(broker: Broker, run: Kshare) -> None:
    (found,) = examine(run)
    assert (found["level"], found["check"]) == ("unknown", "rights")


# --- settings


def test_group_that_starts_at_the_latest_offset(broker: Broker, run: Kshare) -> None:
    (command,) = only(run, "warning", "group new", "never receive existing records", "--group", "new")
    assert run(*command.split()[1:]).code == 0
    assert examine(run, "--group", "new") == []


def test_misspelt_group(broker: Broker, run: Kshare) -> None:
    assert run("groups", "reset-offsets", GROUP, "--topic", "orders", "--to-latest", "--execute").code == 0
    done = run("doctor", "--group", "shipers", "--json")
    (said,) = [load for load in json.loads(done.out) if "shipers" in str(load)]
    assert (done.code, said["check"], said["level"], said["todo"]) == (0, "group shipers", "warning", [])
    assert said["text"] == (
        f"did you mean '{GROUP}'? The group doesn't exist (it is created when its first consumer joins)"
    )
    # One that was configured already isn't misspelt, and neither is one that exists.
    broker.set_group_config("shippers2", {"share.auto.offset.reset": "earliest"})
    text = run("doctor", "--group", "shippers2", "--group", GROUP).out
    assert "did you mean" not in text
    assert "group shippers2: health not checked: the group doesn't exist" in text


def test_setting_out_of_the_brokers_range(broker: Broker, run: Kshare) -> None:
    lock = "share.record.lock.duration.ms"

    def narrow(response: Any) -> None:
        for config in response.results[0].configs:
            if config.name == f"group.share.max.{lock.removeprefix('share.')}":
                config.value = "20000"

    plant(broker, DescribeConfigsRequest, narrow)
    (command,) = only(run, "warning", f"group {GROUP}", f"{lock} is 30000, and brokers allow 1000 to 20000")
    assert run(*command.split()[1:]).code == 0
    assert examine(run, "--group", GROUP) == []


def test_session_timeout_shorter_than_two_heartbeats(broker: Broker, run: Kshare) -> None:
    broker.set_group_config(
        GROUP, {"share.heartbeat.interval.ms": "6000", "share.session.timeout.ms": "7000"}
    )
    (command,) = only(run, "warning", f"group {GROUP}", "is removed from the group")
    assert "share.session.timeout.ms=18000" in command


def test_member_subscribed_to_a_nonexistent_topic(broker: Broker, run: Kshare) -> None:
    with sync.ShareConsumer(broker.bootstrap, group=GROUP, topics=["oders"], client_id="truck"):
        deadline = time.monotonic() + 20
        while not (found := examine(run, "--group", GROUP)):
            assert time.monotonic() < deadline
        assert "truck (" in found[0]["text"]
        assert "waits for topic oders" in found[0]["text"]


# --- dead letters

_DEAD = "errors.deadletterqueue."


@pytest.mark.parametrize(
    ("topic", "text", "command"),
    [
        ("grave", "begin with 'dlq.'", "topic.name=dlq.grave"),
        (
            "dlq.none",
            "which doesn't exist",
            "kshare topics create dlq.none --config errors.deadletterqueue.",
        ),
        ("dlq.shut", "accepts no dead letters", "--add-config errors.deadletterqueue.group.enable=true"),
    ],
)
def test_dead_letters_would_be_lost(broker: Broker, run: Kshare, topic: str, text: str, command: str) -> None:
    broker.create_topic("dlq.shut")
    chosen = {"share.auto.offset.reset": "earliest", f"{_DEAD}topic.name": topic}
    # Set directly: the broker's own API refuses the first of them.
    broker.call(lambda: broker.state.configs.replace(Resource.GROUP, GROUP, chosen))
    (todo,) = only(run, "problem", f"group {GROUP}", text)
    assert command in todo
    assert "no configuration problems" not in run("doctor", "--group", GROUP).out


def test_groups_without_a_dead_letter_topic(broker: Broker, run: Kshare) -> None:
    """A note on one line for all, with commands that do it; none for groups that track dead letters."""
    words = ("--group", GROUP, "--group", "packers", "--group", "kshare-dlq-dlq.orders", "--json")

    def notes() -> list[dict[str, Any]]:
        return [load for load in json.loads(run("doctor", *words).out) if load["check"] == "dead letters"]

    (note,) = notes()
    assert note["level"] == "ok"
    assert note["text"].startswith(
        f"no dead-letter topic is set for {GROUP} and 1 more group: brokers keep no "
    )
    for command in note["todo"]:
        assert run(*command.split()[1:]).code == 0
    (note,) = notes()
    assert note["text"].startswith("no dead-letter topic is set for packers: ")


def test_groups_that_write_their_dead_letters_themselves_need_no_topic(broker: Broker, run: Kshare) -> None:
    """As kshare's workers do. What was advised was a second topic, to which brokers would write nothing."""
    broker.create_topic("dlq.mine", 1, {f"{_DEAD}group.enable": "true"})
    broker.produce("dlq.mine", [b"x"], headers=[("__dlq.errors.group", GROUP.encode())])
    found = json.loads(run("doctor", "--group", GROUP, "--group", "packers", "--json").out)
    first, second = (finding for finding in found if finding["check"] == "dead letters")
    said = f"{GROUP}: members write dead letters to topic dlq.mine themselves, not brokers"
    assert (first["level"], first["text"], first["todo"]) == ("ok", said, [])
    assert second["text"].startswith("no dead-letter topic is set for packers: ")


def test_commands_can_be_copied_whatever_a_group_is_called(broker: Broker, run: Kshare) -> None:
    group = "pick; echo $(id) 'now'"
    found = json.loads(run("doctor", "--group", group, "--json").out)
    commands = [
        command for finding in found for command in finding["todo"] if finding["check"] == "dead letters"
    ]
    assert [shlex.split(command)[:5] for command in commands] == [
        ["kshare", "topics", "create", f"dlq.{group}", "--config"],
        ["kshare", "groups", "config", "set", group],
    ]


def test_brokers_that_write_no_dead_letters(broker: Broker, run: Kshare) -> None:
    """Before Kafka 4.4, they don't have the setting."""

    def forget(response: Any) -> None:
        for result in response.results:
            result.configs = [config for config in result.configs if not config.name.startswith(_DEAD)]

    plant(broker, DescribeConfigsRequest, forget)
    assert "dead-letter topic" not in run("doctor", "--group", GROUP).out


def test_valid_dead_letter_topic(broker: Broker, run: Kshare) -> None:
    broker.create_topic("dlq.orders", settings={f"{_DEAD}group.enable": "true"})
    broker.set_group_config(GROUP, {f"{_DEAD}topic.name": "dlq.orders"})
    assert examine(run, "--group", GROUP) == []
    assert f"group {GROUP}: no configuration problems" in run("doctor", "--group", GROUP).out


# --- leaving


@pytest.mark.lengthy
def test_reader_that_leaves_after_a_few_lines_ends_it_quietly(broker: Broker) -> None:
    """As `| head` does, in the middle of the checks that hold connections."""
    reading, writing = os.pipe()

    def leave(response: Any) -> None:
        assert os.read(reading, 1 << 16).startswith(b"ok ")
        os.close(reading)

    broker.faults.add(DescribeQuorumRequest, change=leave)
    try:
        process = subprocess.Popen(
            [*KSHARE, "doctor", "-b", broker.bootstrap], stdout=writing, stderr=subprocess.PIPE, cwd=ROOT
        )
    finally:
        os.close(writing)
    _, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err) == (141, b"")


# --- layout


@pytest.mark.lengthy
def test_output_fits_a_small_terminal(broker: Broker) -> None:
    done = on_terminal("doctor", "--group", "new")
    assert done.code == 0
    lines = without_colours(done.out).splitlines()
    commands = [line for line in lines if line.startswith("         kshare ")]
    assert len(commands) == 3
    assert max(len(line) for line in lines if line not in commands) <= 80
    for command in commands:
        assert command.endswith(f"--bootstrap-server {broker.bootstrap}")  # not wrapped: it can be copied


@pytest.mark.parametrize(("release", "level"), [("4.1", "warning"), ("4.3", "")])
def test_group_name_with_a_colon(
    release: Release, level: str, monkeypatch: pytest.MonkeyPatch, run: Kshare
) -> None:
    with Broker(release=release) as broker:
        monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)
        broker.set_group_config("shop:eu", {"share.auto.offset.reset": "earliest"})
        said = run("doctor", "--group", "shop:eu").out
    lines = [line for line in said.splitlines() if "KAFKA-20183" in line]
    assert [line.split()[0] for line in lines] == ([level] if level else []), said
