"""The pages of a running exporter: for scrapers, autoscalers and probes."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import anyio
import pytest

from kshare import ShareConsumer
from kshare.exporter import pages, watch
from kshare.exporter.metrics import ExportedValue
from kshare.log_text import escaped
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ListGroupsRequest, ShareGroupDescribeRequest
from kshare.testing import Broker
from tests.exporter.running_exporter import exporting, labels
from tests.helpers.rejecting import reject
from tests.helpers.running_worker import DEADLINE_S, from_the_start, get

pytestmark = pytest.mark.anyio

NAME = 'a/b.c "ü"\n'


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    """A group that has rejected two of five records, with a dead-letter topic, and one that has read nothing."""
    kshare_broker.create_topic("orders", 2)
    kshare_broker.create_topic("dlq.orders", 1, {"errors.deadletterqueue.group.enable": "true"})
    from_the_start(kshare_broker, NAME)
    kshare_broker.set_group_config(NAME, {"errors.deadletterqueue.topic.name": "dlq.orders"})
    kshare_broker.produce("orders", [b"x"] * 2)
    reject(kshare_broker.bootstrap, NAME, "orders", 2)
    kshare_broker.produce("orders", [b"x"] * 3)
    return kshare_broker


@pytest.mark.lengthy
async def test_metrics_of_a_group_and_its_partitions(broker: Broker, anyio_backend: str) -> None:
    async with exporting(broker.bootstrap) as exporter:
        found = await exporter.until(lambda found: "kshare_group_lag_records" in found)
        assert found["kshare_group_lag_records"] == {labels(group=NAME): 3}
        assert found["kshare_group_dead_letter_topic_records"] == {labels(group=NAME): 2}
        assert found["kshare_group_members"] == {labels(group=NAME): 0}
        assert sum(found["kshare_partition_lag_records"].values()) == 3
        assert found["kshare_exporter_up"] == {labels(): 1}
        rejected = labels(group=NAME, reason="rejected")
        assert found["kshare_group_archived_total"][rejected] == 0
        reject(broker.bootstrap, NAME, "orders", 3)
        await exporter.until(lambda found: found["kshare_group_archived_total"][rejected] == 3)


async def test_json_of_a_group(broker: Broker, anyio_backend: str) -> None:
    async with exporting(broker.bootstrap) as exporter:
        assert await get(exporter.port, "/live") == (200, "live\n")
        await exporter.until(lambda found: "kshare_group_lag_records" in found)
        assert await get(exporter.port, "/ready") == (200, "ready\n")
        status, form = await exporter.group(NAME)
        assert (status, form["group"], form["lag"], form["members"]) == (200, NAME, 3, 0)
        assert (form["pinned_windows"], form["stalled_partitions"]) == (0, 0)
        assert (form["dead_letter_topic"], form["dead_letters"]) == ("dlq.orders", 2)
        status, body = await get(exporter.port, "/groups")
        assert status == 200
        assert [group["group"] for group in json.loads(body)["groups"]] == [NAME]


@pytest.mark.lengthy
async def test_what_is_unknown_is_an_error(
    broker: Broker, anyio_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A lag of 0 would stop all workers of a group that has work to do."""

    def refuse(response: Any) -> None:
        for group in response.groups:
            group.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    fault = broker.faults.add(ShareGroupDescribeRequest, times=None, change=refuse)
    async with exporting(broker.bootstrap) as exporter:
        found = await exporter.until(lambda found: "kshare_exporter_unreadable_groups" in found)
        assert found["kshare_exporter_unreadable_groups"] == {labels(): 1}
        assert "kshare_group_lag_records" not in found
        assert "kshare_group_members" not in found
        status, form = await exporter.group(NAME)
        assert (status, form["group"]) == (503, NAME)
        assert "lag" not in form
        assert "is unknown" in form["error"]
        fault.stop()
        await exporter.until(lambda found: "kshare_group_lag_records" in found)
    logged = [record.getMessage() for record in caplog.records if record.name == "kshare.exporter"]
    assert logged == [
        f"groups that can't be read: {escaped(NAME)} (GROUP_AUTHORIZATION_FAILED)",
        "all groups can be read again",
    ]


async def test_other_pages_do_not_exist(broker: Broker, anyio_backend: str) -> None:
    async with exporting(broker.bootstrap, groups=(NAME, "absent")) as exporter:
        found = await exporter.until(lambda found: "kshare_group_lag_records" in found)
        assert found["kshare_exporter_unreadable_groups"] == {labels(): 1}
        assert await exporter.group("missing") == (404, {"error": "no group 'missing'"})
        assert (await get(exporter.port, "/groups/%ff"))[0] == 400
        status, body = await get(exporter.port, "/other")
        assert (status, body) == (404, "there are /metrics, /groups, /groups/NAME, /live and /ready\n")


@pytest.mark.lengthy
async def test_figures_are_dropped_while_the_cluster_is_away(
    broker: Broker, anyio_backend: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watch, "SHORTEST_LIFE_S", 2.0)
    async with exporting(broker.bootstrap) as exporter:
        before = await exporter.until(lambda found: "kshare_group_lag_records" in found)
        fault = broker.faults.add(ListGroupsRequest, times=None, error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        found = await exporter.until(lambda found: "kshare_group_lag_records" not in found)
        assert found["kshare_exporter_up"] == {labels(): 0}
        assert found["kshare_exporter_failures_total"][labels()] > 0
        assert [name for name in found if name.startswith(("kshare_group", "kshare_partition"))] == []
        status, form = await exporter.group(NAME)
        assert status == 503
        assert "CLUSTER_AUTHORIZATION_FAILED" in form["error"]
        assert (await get(exporter.port, "/ready"))[0] == 200
        fault.stop()
        after = await exporter.until(lambda found: "kshare_group_lag_records" in found)
        assert after["kshare_group_settled_total"] == before["kshare_group_settled_total"]
        assert after["kshare_exporter_up"] == {labels(): 1}
    logged = [record.getMessage() for record in caplog.records if record.name == "kshare.exporter"]
    assert len(logged) == 2
    assert logged[0].startswith("the cluster can't be read: ")


@pytest.mark.lengthy
async def test_a_cluster_that_is_not_there_yet(anyio_backend: str) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound but not listening, so that nothing else can use the port
        async with exporting("{}:{}".format(*nobody.getsockname())) as exporter:
            found = await exporter.until(lambda found: found["kshare_exporter_failures_total"][labels()] > 0)
            assert found["kshare_exporter_up"] == {labels(): 0}
            status, body = await get(exporter.port, "/ready")
            assert (status, "can't reach" in body) == (503, True)


@pytest.mark.lengthy
async def test_work_of_groups_and_topics_that_are_new_counts(broker: Broker, anyio_backend: str) -> None:
    """From the first record on: their share-partitions didn't exist when the exporter started."""
    async with exporting(broker.bootstrap) as exporter:
        await exporter.until(lambda found: "kshare_group_lag_records" in found)
        broker.create_topic("returns", 1)
        broker.produce("returns", [b"x"] * 6)
        from_the_start(broker, "new")
        reject(broker.bootstrap, "new", "returns", 6)
        where = labels(group="new", reason="rejected")
        found = await exporter.until(
            lambda found: found.get("kshare_group_archived_total", {}).get(where) == 6
        )
        assert found["kshare_group_settled_total"][labels(group="new")] == 6
        broker.delete_topic("returns")
        broker.create_topic("returns", 1)
        broker.produce("returns", [b"x"] * 3)
        reject(broker.bootstrap, "new", "returns", 3)
        found = await exporter.until(lambda found: found["kshare_group_archived_total"][where] == 9)
        assert found["kshare_group_settled_total"][labels(group="new")] == 9
        assert found["kshare_group_deliveries_total"][labels(group="new")] == 9


@pytest.mark.lengthy
async def test_groups_that_track_dead_letters_are_marked(broker: Broker, anyio_backend: str) -> None:
    from_the_start(broker, "kshare-dlq-dlq.orders")
    reject(broker.bootstrap, "kshare-dlq-dlq.orders", "orders", 5)
    async with exporting(broker.bootstrap) as exporter:
        await exporter.until(lambda found: "kshare_group_lag_records" in found)
        status, body = await get(exporter.port, "/groups")
        assert status == 200
        marked = {group["group"]: group["tracks_dead_letters"] for group in json.loads(body)["groups"]}
        assert marked == {NAME: False, "kshare-dlq-dlq.orders": True}


@pytest.mark.lengthy
async def test_why_the_lag_of_a_group_is_unknown(broker: Broker, anyio_backend: str) -> None:
    """It has settled nothing, and started at the latest record."""
    broker.set_group_config("late", {"share.auto.offset.reset": "latest"})
    async with (
        ShareConsumer(broker.bootstrap, group="late", topics=["orders"]) as consumer,
        exporting(broker.bootstrap) as exporter,
    ):
        with anyio.move_on_after(2):
            await consumer.next_batch()
        await exporter.until(lambda found: labels(group="late") in found.get("kshare_group_members", {}))
        status, form = await exporter.group("late")
        assert status == 503
        assert "share.auto.offset.reset is latest" in form["error"]


async def test_a_page_is_made_once_and_probes_do_not_wait_for_it(
    broker: Broker, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of 300 groups with 80 partitions takes seconds."""
    made: list[object] = []
    goes_on = threading.Event()

    def slow(*args: object, **options: object) -> list[ExportedValue]:
        made.append(args)
        goes_on.wait(DEADLINE_S)
        return []

    monkeypatch.setattr(pages, "report_values", slow)
    async with exporting(broker.bootstrap, 1000.0) as exporter:
        with anyio.fail_after(DEADLINE_S):
            while (await get(exporter.port, "/ready"))[0] != 200:
                await anyio.sleep(0.02)
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(get, exporter.port, "/metrics")
            with anyio.fail_after(DEADLINE_S):
                while not made:
                    await anyio.sleep(0.02)
            assert await get(exporter.port, "/live") == (200, "live\n")
            assert not goes_on.is_set()
            goes_on.set()
    assert len(made) == 1
