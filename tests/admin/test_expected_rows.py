"""Responses that leave out what was requested: the error says what, instead of an IndexError somewhere behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from kshare import AdminClient, KshareError
from kshare.admin.config import admin_settings
from kshare.admin.log_offsets import EARLIEST, log_offsets
from kshare.admin.log_reading import LogReader
from kshare.admin.record_search import SearchLimits, search_records
from kshare.admin.routing import Router
from kshare.errors import BrokerError
from kshare.net.pool import Pool
from kshare.protocol.message import Request
from kshare.protocol.messages import (
    DescribeConfigsRequest,
    DescribeShareGroupOffsetsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ShareGroupDescribeRequest,
)
from kshare.testing import Broker

pytestmark = pytest.mark.anyio


def without(rows: str) -> Callable[[Any], None]:
    def change(response: Any) -> None:
        getattr(response, rows).clear()

    return change


@pytest.mark.parametrize(
    ("request_type", "rows", "ask", "missing"),
    [
        (
            FindCoordinatorRequest,
            "coordinators",
            lambda admin: admin.describe_share_group("g"),
            "FindCoordinator says nothing about the coordinator of g",
        ),
        (
            ShareGroupDescribeRequest,
            "groups",
            lambda admin: admin.describe_share_group("g"),
            "ShareGroupDescribe says nothing about group g",
        ),
        (
            DescribeShareGroupOffsetsRequest,
            "groups",
            lambda admin: admin.share_group_offsets("g"),
            "DescribeShareGroupOffsets says nothing about group g",
        ),
        (
            DescribeConfigsRequest,
            "results",
            lambda admin: admin.topic_config("orders"),
            "DescribeConfigs says nothing about topic orders",
        ),
        (
            MetadataRequest,
            "brokers",
            lambda admin: admin.group_config("g"),
            "Metadata says nothing about any broker",
        ),
        (
            ListOffsetsRequest,
            "topics",
            lambda admin: admin.reset_share_group_offsets("g", "latest", {"orders": None}),
            r"ListOffsets says nothing about orders\[0\]",
        ),
    ],
)
async def test_a_response_without_the_requested_row(
    kshare_broker: Broker,
    admin: AdminClient,
    request_type: type[Request[Any]],
    rows: str,
    ask: Callable[[AdminClient], Awaitable[object]],
    missing: str,
) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.faults.add(request_type, times=None, change=without(rows))
    with pytest.raises(KshareError, match=missing):
        await ask(admin)


async def test_a_topic_that_isn_t_in_the_metadata(kshare_broker: Broker) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.faults.add(MetadataRequest, times=None, change=without("topics"))
    async with Pool(admin_settings(kshare_broker.bootstrap, {})) as pool:
        with pytest.raises(KshareError, match="Metadata says nothing about topic orders"):
            await search_records(
                Router(pool, 5), "orders", {0: (0, 1)}, lambda number, record: True, SearchLimits()
            )
        with pytest.raises(KshareError, match="Metadata says nothing about the topic with id 0101"):
            await LogReader(Router(pool, 5)).fetch((b"\1" * 16, 0), 0)


async def test_a_partition_that_doesn_t_exist_has_no_offsets(kshare_broker: Broker) -> None:
    kshare_broker.create_topic("orders")
    async with Pool(admin_settings(kshare_broker.bootstrap, {})) as pool:
        with pytest.raises(BrokerError, match=r"orders\[7\]: UNKNOWN_TOPIC_OR_PARTITION"):
            await log_offsets(Router(pool, 5), [("orders", 0), ("orders", 7)], EARLIEST)


@pytest.mark.lengthy
@pytest.mark.parametrize("level", ["topic", "partition"])
async def test_a_fetched_partition_that_isn_t_in_the_response(kshare_broker: Broker, level: str) -> None:
    kshare_broker.create_topic("orders")

    def change(response: Any) -> None:
        if level == "topic":
            response.responses.clear()
        else:
            response.responses[0].partitions.clear()

    kshare_broker.faults.add(FetchRequest, times=None, change=change)
    async with Pool(admin_settings(kshare_broker.bootstrap, {})) as pool:
        router = Router(pool, 5)
        topic = (await router.metadata(["orders"])).topics[0]
        with anyio.fail_after(5), pytest.raises(KshareError, match=r"Fetch says nothing about orders\[0\]"):
            await LogReader(router).fetch((topic.topic_id, 0), 0)
