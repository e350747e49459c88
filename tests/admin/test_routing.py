"""Which requests are retried, which aren't, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from kshare import AdminClient, BrokerError, ConnectionLost, RequestTimedOut
from kshare.admin.routing import Router
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Request
from kshare.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DescribeConfigsRequest,
    DescribeShareGroupOffsetsRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
    ShareGroupDescribeRequest,
)
from kshare.testing import Broker

pytestmark = pytest.mark.anyio


async def do_everything(admin: AdminClient) -> None:
    await admin.reset_share_group_offsets("g", "latest", {"orders": None})
    await admin.alter_group_config("g", {"share.auto.offset.reset": "earliest"})
    assert (await admin.describe_share_group("g")).state == "Empty"
    assert len(await admin.list_groups()) == 1
    assert await admin.group_config("g")


def saying(rows: str | None, error: ErrorCode) -> Callable[[Any], None]:
    """Set the error code in each of these rows of the response, or in the response itself."""

    def change(response: Any) -> None:
        for part in getattr(response, rows) if rows else [response]:
            part.error_code = error

    return change


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("request_type", "rows", "error"),
    [
        (FindCoordinatorRequest, "coordinators", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ShareGroupDescribeRequest, "groups", ErrorCode.NOT_COORDINATOR),
        (DescribeShareGroupOffsetsRequest, "groups", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (AlterShareGroupOffsetsRequest, None, ErrorCode.NOT_COORDINATOR),
        (ListGroupsRequest, None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (IncrementalAlterConfigsRequest, "responses", ErrorCode.NOT_CONTROLLER),
    ],
)
async def test_retriable_errors_are_retried(
    kshare_broker: Broker,
    admin: AdminClient,
    request_type: type[Request[Any]],
    rows: str | None,
    error: ErrorCode,
) -> None:
    kshare_broker.create_topic("orders")
    fault = kshare_broker.faults.add(request_type, times=2, change=saying(rows, error))
    await do_everything(admin)
    assert fault.hits == 2


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "request_type",
    [
        AlterShareGroupOffsetsRequest,
        DescribeConfigsRequest,
        FindCoordinatorRequest,
        IncrementalAlterConfigsRequest,
        ListGroupsRequest,
        ListOffsetsRequest,
        MetadataRequest,
        ShareGroupDescribeRequest,
    ],
)
async def test_requests_are_repeated_when_the_response_is_lost(
    kshare_broker: Broker, admin: AdminClient, request_type: type[Request[Any]]
) -> None:
    kshare_broker.create_topic("orders")
    fault = kshare_broker.faults.add(request_type, cut_after=5)
    await do_everything(admin)
    assert fault.hits == 1


@pytest.mark.lengthy
async def test_requests_that_are_not_idempotent_are_sent_once(
    kshare_broker: Broker, admin: AdminClient
) -> None:
    kshare_broker.create_topic("orders")
    await admin.alter_share_group_offsets("g", {("orders", 0): 0})
    for request_type in (DeleteGroupsRequest, CreateTopicsRequest):
        fault = kshare_broker.faults.add(request_type, times=None, cut_after=5)
        with pytest.raises(ConnectionLost):
            await (
                admin.delete_share_group("g")
                if request_type is DeleteGroupsRequest
                else admin.create_topic("returns")
            )
        assert fault.hits == 1
    assert await admin.list_groups() == []
    assert "returns" in {topic.topic for topic in await admin.list_topics()}


@pytest.mark.lengthy
async def test_persistent_retriable_error_is_raised_after_the_timeout(kshare_broker: Broker) -> None:
    async with AdminClient(kshare_broker.bootstrap, request_timeout=2) as admin:
        kshare_broker.faults.add(
            FindCoordinatorRequest, times=None, error=ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
        with anyio.fail_after(20), pytest.raises(BrokerError, match="COORDINATOR_NOT_AVAILABLE"):
            await admin.describe_share_group("g")


@pytest.mark.lengthy
async def test_silent_broker_raises_request_timed_out(kshare_broker: Broker) -> None:
    async with AdminClient(kshare_broker.bootstrap, request_timeout=2) as admin:
        kshare_broker.faults.add(ListGroupsRequest, times=None, swallow=True)
        with anyio.fail_after(20), pytest.raises(RequestTimedOut):
            await admin.list_groups()


async def test_fatal_errors_are_raised_at_once(kshare_broker: Broker, admin: AdminClient) -> None:
    fault = kshare_broker.faults.add(
        ListGroupsRequest, times=None, error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    with pytest.raises(BrokerError, match="listing groups: CLUSTER_AUTHORIZATION_FAILED"):
        await admin.list_groups()
    assert fault.hits == 1


async def test_config_bounds_are_none_without_permission_to_describe_the_broker(
    kshare_broker: Broker, admin: AdminClient
) -> None:
    kshare_broker.faults.add(
        DescribeConfigsRequest,
        times=None,
        when=lambda request: request.resources[0].resource_type == 4,
        change=saying("results", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    )
    found = await admin.group_config("g")
    assert found
    assert {(entry.lowest, entry.highest) for entry in found} == {(None, None)}


@pytest.mark.lengthy
async def test_a_topic_may_be_unknown_for_a_while(kshare_broker: Broker) -> None:
    settings = NetSettings.parse(kshare_broker.bootstrap, client_id="patient")
    async with Pool(settings) as pool:
        router = Router(pool, 60.0)
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await router.retry(lambda _: router.metadata(["late"]))
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await router.retry(lambda _: router.metadata(["late"]), unknown_s=0.2)
        tries = 0

        async def step(_: float) -> MetadataResponse:
            nonlocal tries
            tries += 1
            if tries == 3:
                kshare_broker.create_topic("late")
            return await router.metadata(["late"])

        found = await router.retry(step, unknown_s=30.0)
        assert found.topics[0].name == "late"
        assert tries == 3
