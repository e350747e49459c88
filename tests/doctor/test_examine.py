"""Responses that never arrive, or leave out what was requested: a problem that says what is missing, never an
all-clear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kshare.admin.groups import describe_share_group
from kshare.admin.routing import Router
from kshare.doctor.check_result import CheckLevel, CheckResult
from kshare.doctor.clocks import clocks
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.dead_letter_topics import dead_letter_topics
from kshare.doctor.examine import Check, examine
from kshare.doctor.examining_router import ExaminingRouter
from kshare.doctor.internal_topics import internal_topics
from kshare.doctor.rights import rights
from kshare.errors import BrokerError, ConnectionLost, IncompleteResponse
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Request
from kshare.protocol.messages import (
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeQuorumRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
    MetadataRequest,
    ShareGroupDescribeRequest,
)
from kshare.testing import Broker

GROUP = "shippers"
DEAD_LETTERS = "errors.deadletterqueue."


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    kshare_broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
    return kshare_broker


async def all_of(settings: NetSettings, groups: tuple[str, ...] = ()) -> list[CheckResult]:
    found: list[CheckResult] = []
    await examine(settings, found.append, groups)
    return found


def empty(broker: Broker, api: type[Request[Any]], *path: str) -> None:
    """The list at the end of the path is empty; those before it have their first row."""

    def change(response: Any) -> None:
        for name in path[:-1]:
            rows = getattr(response, name)
            if not rows:
                return
            response = rows[0]
        getattr(response, path[-1]).clear()

    broker.faults.add(api, times=None, change=change)


@pytest.mark.parametrize(
    ("api", "rows", "check", "missing"),
    [
        (MetadataRequest, "brokers", "cluster", "Metadata says nothing about any broker"),
        (
            ShareGroupDescribeRequest,
            "groups",
            "settings",
            f"ShareGroupDescribe says nothing about group {GROUP}",
        ),
        (DescribeConfigsRequest, "results", "settings", f"DescribeConfigs says nothing about group {GROUP}"),
    ],
)
@pytest.mark.anyio
async def test_what_is_missing_is_a_problem(
    broker: Broker, api: type[Request[Any]], rows: str, check: str, missing: str
) -> None:
    empty(broker, api, rows)
    found = await all_of(NetSettings.parse(broker.bootstrap), (GROUP,))
    problems = [finding for finding in found if finding.level is CheckLevel.PROBLEM]
    assert any(problem.check == check and missing in problem.text for problem in problems), found


@pytest.mark.parametrize(
    ("check", "api", "path", "missing"),
    [
        (clocks, DescribeQuorumRequest, ("topics",), "DescribeQuorum says nothing about topic __cluster_me"),
        (
            clocks,
            DescribeQuorumRequest,
            ("topics", "partitions"),
            "DescribeQuorum says nothing about the partition of topic __cluster_metadata",
        ),
        (rights, FindCoordinatorRequest, ("coordinators",), "FindCoordinator says nothing about the coordi"),
        (rights, DescribeGroupsRequest, ("groups",), f"DescribeGroups says nothing about group {GROUP}"),
        (
            internal_topics,
            MetadataRequest,
            ("topics", "partitions"),
            "Metadata says nothing about the partitions of topic __consumer_offsets",
        ),
        (
            dead_letter_topics,
            DescribeConfigsRequest,
            ("results", "configs"),
            "DescribeConfigs says nothing about errors.deadletterqueue.group.enable of topic dlq.orders",
        ),
    ],
)
@pytest.mark.anyio
async def test_a_check_says_what_is_missing(
    broker: Broker, check: Check, api: type[Request[Any]], path: tuple[str, ...], missing: str
) -> None:
    broker.create_topic("__consumer_offsets")
    broker.create_topic("dlq.orders", settings={f"{DEAD_LETTERS}group.enable": "true"})
    broker.set_group_config(GROUP, {f"{DEAD_LETTERS}topic.name": "dlq.orders"})
    async with Pool(NetSettings.parse(broker.bootstrap)) as pool:
        info = ClusterInfo(pool, Router(pool, 10), (GROUP,))
        await info.discover()
        await info.group_config(GROUP)
        empty(broker, api, *path)
        with pytest.raises(IncompleteResponse, match=missing):
            async for _ in check(info):
                pass


@pytest.mark.anyio
async def test_a_topic_whose_rights_are_not_in_the_response(broker: Broker) -> None:
    async with Pool(NetSettings.parse(broker.bootstrap)) as pool:
        info = ClusterInfo(pool, Router(pool, 10), (), ("orders",))
        await info.discover()
        empty(broker, MetadataRequest, "topics")
        with pytest.raises(IncompleteResponse, match="Metadata says nothing about topic orders"):
            async for _ in rights(info):
                pass


@pytest.mark.anyio
async def test_an_error_of_the_controllers_is_said(broker: Broker) -> None:
    """Such a response has no topics."""

    def refuse(response: Any) -> None:
        response.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        response.topics.clear()

    broker.faults.add(DescribeQuorumRequest, times=None, change=refuse)
    async with Pool(NetSettings.parse(broker.bootstrap)) as pool:
        info = ClusterInfo(pool, Router(pool, 10), (GROUP,))
        (found,) = [clock async for clock in clocks(info)]
    assert (found.level, "UNKNOWN_SERVER_ERROR" in found.text) == (CheckLevel.UNKNOWN, True)


# --- no response


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshare.doctor.examining_router._FIRST_LIMIT_S", 0.5)


def silent(broker: Broker, api: type[Request[Any]], node: int | None = None) -> list[None]:
    """The broker never responds to these requests; returns a list that grows with each of them."""
    asked: list[None] = []
    broker.faults.add(api, times=None, node=node, swallow=True, do=lambda: asked.append(None))
    return asked


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("api", "first"),
    [
        (DescribeConfigsRequest, "internal topics"),
        (DescribeQuorumRequest, "clock"),
        (ListGroupsRequest, "groups"),
        (FindCoordinatorRequest, "rights"),
        (ShareGroupDescribeRequest, "settings"),
    ],
)
@pytest.mark.usefixtures("short_limit")
@pytest.mark.anyio
async def test_what_gets_no_response_is_a_problem_and_not_asked_again(
    broker: Broker, api: type[Request[Any]], first: str
) -> None:
    asked = silent(broker, api)
    found = await all_of(NetSettings.parse(broker.bootstrap), (GROUP, "packers"))
    (said,) = [finding for finding in found if finding.level is CheckLevel.PROBLEM]
    assert (said.check, len(asked)) == (first, 1)
    assert said.text == f"not checked: {broker.bootstrap} didn't respond to {api.NAME} within 0.5 s"
    unchecked = {finding.text for finding in found if finding.level is CheckLevel.UNKNOWN}
    assert unchecked <= {f"not checked, for the same reason as {first}"}
    assert not any(finding.check == f"group {GROUP}" and "members" in finding.text for finding in found)


@pytest.mark.lengthy
@pytest.mark.usefixtures("short_limit")
@pytest.mark.anyio
async def test_another_broker_is_asked_instead_of_one_that_does_not_respond() -> None:
    with Broker(nodes=3) as broker:
        asked = silent(broker, DescribeQuorumRequest, 1)
        async with Pool(NetSettings.parse(broker.bootstrap)) as pool:
            router = ExaminingRouter(pool)
            info = ClusterInfo(pool, router)
            await info.discover()
            router.note_brokers(info.connections, info.unreachable)
            for _ in range(5):
                (found,) = [clock async for clock in clocks(info)]
                assert found.level is CheckLevel.OK
        assert len(asked) <= 1


@pytest.mark.lengthy
@pytest.mark.usefixtures("short_limit")
@pytest.mark.anyio
async def test_a_broker_that_does_not_respond_is_a_problem_also_if_another_does() -> None:
    with Broker(nodes=2) as broker:
        asked = silent(broker, DescribeQuorumRequest, 1)
        silent_broker, other = broker.bootstrap.split(",")
        for bootstrap in (silent_broker, other):  # which one is asked first depends on it
            found = await all_of(NetSettings.parse(bootstrap))
            assert [finding.level for finding in found if finding.check == "clock"] == [CheckLevel.OK]
            said = [finding.text for finding in found if finding.level is CheckLevel.PROBLEM]
            assert len(said) == len(asked)
            assert all(
                f"{silent_broker} didn't respond to DescribeQuorumRequest within" in finding
                for finding in said
            )
            asked.clear()


@pytest.mark.lengthy
@pytest.mark.usefixtures("short_limit")
@pytest.mark.anyio
async def test_limits_get_shorter_with_each_operation_in_vain(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator never becomes available."""
    monkeypatch.setattr("kshare.doctor.examining_router._LEAST_LIMIT_S", 0.1)

    def refuse(response: Any) -> None:
        response.coordinators[0].error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE

    broker.faults.add(FindCoordinatorRequest, times=None, change=refuse)
    async with Pool(NetSettings.parse(broker.bootstrap)) as pool:
        router = ExaminingRouter(pool)
        limits = []
        for _ in range(4):
            with pytest.raises((BrokerError, ConnectionLost)):  # it may take as long to connect
                await describe_share_group(router, GROUP)
            limits.append(router.limit)
    assert limits == [0.25, 0.125, 0.1, 0.1]


@pytest.mark.anyio
async def test_no_bootstrap_address_can_be_reached(free_tcp_port_factory: Callable[[], int]) -> None:
    """Each alone is a warning."""
    servers = ",".join(f"127.0.0.1:{free_tcp_port_factory()}" for _ in range(2))
    found = [finding for finding in await all_of(NetSettings.parse(servers)) if finding.check == "bootstrap"]
    assert [finding.level for finding in found] == [
        CheckLevel.WARNING,
        CheckLevel.WARNING,
        CheckLevel.PROBLEM,
    ]
