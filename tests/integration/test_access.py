"""ACLs of a real broker: errors name the missing permission, and the command in them grants it."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from kafka import KafkaProducer

from kshare import AdminClient, ShareConsumer
from kshare.cli.app import run
from kshare.errors import BrokerError, NotAuthorized
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.messages import CreateAclsRequest
from kshare.protocol.messages.create_acls_request import AclCreation
from kshare.worker import RetryTopics, Worker
from tests.integration.conftest import _fresh_name, _run
from tools.kafka.cluster import Cluster
from tools.kafka.jars import TESTED_RELEASES, install
from tools.kafka.listeners import USERS, Listener

pytestmark = [pytest.mark.kafka, pytest.mark.anyio]

NEWEST = TESTED_RELEASES[-1]
DEADLINE_S = 60
USER = USERS[1]
_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_RESOURCES = {"topic": 2, "group": 3, "cluster": 4}
_OPERATIONS = {
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Describe": 8,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
}
_LITERAL, _ALLOW = 3, 3
_ACL_TOOL = "org.apache.kafka.tools.AclCommand"
Task = Callable[[AdminClient, str, str], Awaitable[Any]]


@pytest.fixture(scope="module", params=[NEWEST])
def guarded(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    install(request.param)
    cluster = Cluster(request.param, listeners=[Listener.SASL_PLAINTEXT], settings=_SETTINGS)
    yield from _run(cluster, request)


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def root(guarded: Cluster, anyio_backend: str) -> AsyncIterator[AdminClient]:
    """Clients of the listener without authentication have all permissions."""
    async with AdminClient(guarded.bootstrap) as admin:
        yield admin


@pytest.fixture
async def user(guarded: Cluster, anyio_backend: str) -> AsyncIterator[AdminClient]:
    async with AdminClient(**login(guarded)) as admin:
        yield admin


@pytest.fixture
def topic(guarded: Cluster) -> str:
    name = _fresh_name("topic")
    guarded.create_topic(name)
    return name


@pytest.fixture
async def group(root: AdminClient, topic: str) -> str:
    """A group with an offset for the topic."""
    name = _fresh_name("group")
    with anyio.fail_after(DEADLINE_S):
        while not await has_offset(root, name, topic):
            await anyio.sleep(0.05)
    return name


def login(cluster: Cluster) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap_of(Listener.SASL_PLAINTEXT),
        "sasl_mechanism": "PLAIN",
        "username": USER.name,
        "password": USER.password,
        "request_timeout": 20,
    }


async def has_offset(root: AdminClient, group: str, topic: str) -> bool:
    """Set an offset. Fails for a moment after the topic is created, until the leader knows it."""
    try:
        await root.alter_share_group_offsets(group, {(topic, 0): 0})
    except BrokerError:
        return False
    return True


async def allow(cluster: Cluster, command: str) -> None:
    """Do what Kafka's tool does for this command, without starting a JVM."""
    words = shlex.split(command)
    resource, name = (
        (words[-1][2:], "kafka-cluster") if words[-1] == "--cluster" else (words[-2][2:], words[-1])
    )
    rule = AclCreation(
        _RESOURCES[resource],
        name,
        _LITERAL,
        words[words.index("--allow-principal") + 1],
        "*",
        _OPERATIONS[words[words.index("--operation") + 1]],
        _ALLOW,
    )
    async with Pool(NetSettings.parse(cluster.bootstrap)) as pool:
        response = await pool.ask(None, CreateAclsRequest([rule]))
        assert [result.error_code for result in response.results] == [0]


async def rights_needed(cluster: Cluster, attempt: Callable[[], Awaitable[Any]]) -> list[str]:
    """Try, grant the permission that the error names, and retry until it succeeds. Returns the permissions."""
    granted: list[str] = []
    with anyio.fail_after(DEADLINE_S):
        while True:
            try:
                await attempt()
            except NotAuthorized as error:
                right = f"{error.operation} {error.resource}"
                assert error.command in str(error)
                assert f"{right.split()[0]} on {f'{error.resource} {error.resource_name}'.strip()}" in str(
                    error
                )
                if right in granted:
                    await anyio.sleep(0.05)  # brokers apply new ACLs with a delay
                    continue
                granted.append(right)
                await allow(cluster, error.command)
            else:
                return granted


TASKS: dict[str, tuple[Task, list[str]]] = {
    "describe": (lambda admin, group, _: admin.describe_share_group(group), ["Describe group"]),
    "offsets": (
        lambda admin, group, topic: admin.share_group_offsets(group, {topic: None}),
        ["Describe topic", "Describe group"],
    ),
    "alter": (
        lambda admin, group, topic: admin.alter_share_group_offsets(group, {(topic, 0): 0}),
        ["Describe group", "Read group", "Read topic"],
    ),
    "reset": (
        lambda admin, group, topic: admin.reset_share_group_offsets(group, "earliest", {topic: None}),
        ["Describe topic", "Describe group", "Read group", "Read topic"],
    ),
    "forget": (
        lambda admin, group, topic: admin.delete_share_group_offsets(group, topic),
        ["Describe group", "Delete group", "Read topic"],
    ),
    "delete": (lambda admin, group, _: admin.delete_share_group(group), ["Describe group", "Delete group"]),
    "settings": (lambda admin, group, _: admin.group_config(group), ["DescribeConfigs group"]),
    "set": (
        lambda admin, group, _: admin.alter_group_config(group, {"share.auto.offset.reset": "earliest"}),
        ["AlterConfigs group"],
    ),
    "topic settings": (lambda admin, _, topic: admin.topic_config(topic), ["DescribeConfigs topic"]),
    "topic set": (
        lambda admin, _, topic: admin.alter_topic_config(topic, {"retention.ms": "1000000"}),
        ["AlterConfigs topic"],
    ),
    "create": (lambda admin, _, topic: admin.create_topic(f"{topic}-2"), ["Create topic"]),
    "remove": (lambda admin, _, topic: admin.delete_topic(topic), ["Delete topic"]),
}


@pytest.mark.parametrize("name", TASKS)
async def test_each_error_names_the_missing_permission(
    name: str, guarded: Cluster, user: AdminClient, topic: str, group: str
) -> None:
    task, rights = TASKS[name]
    assert await rights_needed(guarded, lambda: task(user, group, topic)) == rights


async def test_a_consumer_names_missing_permissions_and_starts_once_it_has_them(
    guarded: Cluster, topic: str
) -> None:
    group = _fresh_name("group")
    guarded.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    producer = KafkaProducer(bootstrap_servers=guarded.bootstrap)
    producer.send(topic, b"1").get(DEADLINE_S)
    producer.close()

    async def read() -> None:
        async with ShareConsumer(**login(guarded), group=group, topics=[topic]) as consumer:
            async for record in consumer:
                assert record.value == b"1"
                return

    assert await rights_needed(guarded, read) == ["Read group", "Describe topic", "Read topic"]


async def test_groups_and_topics_without_permission_are_not_listed(
    guarded: Cluster, root: AdminClient, user: AdminClient, topic: str, group: str
) -> None:
    assert group not in [row.group for row in await user.list_groups()]
    assert topic not in [row.topic for row in await user.list_topics()]
    await rights_needed(guarded, lambda: user.share_group_offsets(group, {topic: None}))
    assert group in [row.group for row in await user.list_groups()]
    assert topic in [row.topic for row in await user.list_topics()]


async def test_kafkas_tool_accepts_the_command(guarded: Cluster, user: AdminClient, group: str) -> None:
    with pytest.raises(NotAuthorized) as caught:
        await user.describe_share_group(group)
    words = shlex.split(caught.value.command)
    assert words[:2] == ["kafka-acls.sh", "--bootstrap-server"]
    await anyio.to_thread.run_sync(lambda: guarded.run_tool(_ACL_TOOL, *words[3:]))
    with anyio.fail_after(DEADLINE_S):
        while not await is_allowed(user, group):
            await anyio.sleep(0.05)


async def test_the_doctor_says_what_to_grant(
    guarded: Cluster, topic: str, group: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The doctor asks the brokers which operations are allowed, without trying them."""
    file = tmp_path / "client.properties"
    jaas = f'PlainLoginModule required username="{USER.name}" password="{USER.password}";'
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n")
    words = ["-b", guarded.bootstrap_of(Listener.SASL_PLAINTEXT), "--command-config", str(file)]

    async def complaints() -> list[dict[str, Any]]:
        asked = ["doctor", *words, "--group", group, "--topic", topic, "--json"]
        await anyio.to_thread.run_sync(run, asked)
        return [
            load
            for load in json.loads(capsys.readouterr().out)
            if load["check"] == "rights" and load["level"] != "ok"
        ]

    found = await complaints()
    who = f"User:{USER.name} may not read"
    assert [finding["text"] for finding in found] == [f"{who} group {group}", f"{who} topic {topic}"]
    for finding in found:
        await allow(guarded, finding["todo"][0])
    with anyio.fail_after(DEADLINE_S):
        while await complaints():
            pass


async def test_the_check_of_a_worker_says_what_to_grant(
    guarded: Cluster,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Granting what it says, step by step, makes all problems disappear."""
    module, group, dead = _fresh_name("app").replace("-", "_"), _fresh_name("group"), _fresh_name("dead")
    connection = {
        **login(guarded),
        "group": group,
        "dead_letters": dead,
        "retry_topics": RetryTopics(tiers=(60,)),
    }
    worker = Worker(**connection)

    @worker.handler(topic)
    async def ship(value: bytes) -> None: ...

    monkeypatch.setitem(sys.modules, module, SimpleNamespace(worker=worker))

    async def problems() -> list[dict[str, Any]]:
        await anyio.to_thread.run_sync(run, ["worker", "check", module, "--json"])
        found = json.loads(capsys.readouterr().out)
        return [finding for finding in found if finding["level"] == "problem"]

    granted: list[str] = []
    with anyio.fail_after(DEADLINE_S):
        while found := await problems():
            for command in {line for finding in found for line in finding["todo"]} - set(granted):
                granted.append(command)
                await (
                    allow(guarded, command)
                    if command.startswith("kafka-acls")
                    else configure(guarded, command)
                )
    rights = sorted(re.findall(r"--operation (\w+) --(\w+) (\S+)", " ".join(granted)))
    retry = f"{topic}.retry.1m"
    assert rights == sorted(
        [
            ("Read", "topic", topic),
            ("Read", "group", group),
            ("Read", "group", f"{group}.retry"),
            ("Create", "topic", dead),
            ("Create", "topic", retry),
            ("Write", "topic", dead),
            ("Write", "topic", retry),
            ("Read", "topic", retry),
            ("DescribeConfigs", "group", group),
            ("DescribeConfigs", "group", f"{group}.retry"),
        ]
    )


async def configure(cluster: Cluster, command: str) -> None:
    """Do what `kshare groups config set` does for this command, as an administrator."""
    words = shlex.split(command)
    name, _, value = words[5].partition("=")
    async with AdminClient(cluster.bootstrap) as admin:
        await admin.alter_group_config(words[4], {name: value})


async def is_allowed(user: AdminClient, group: str) -> bool:
    try:
        await user.describe_share_group(group)
    except NotAuthorized:
        return False
    return True
