"""A group whose first member holds all records: brokers store no start offset, and all tools agree on its lag."""

from __future__ import annotations

import functools
import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import anyio
import anyio.to_thread
import pytest

from kshare import AdminClient
from kshare.admin.config import admin_settings
from kshare.admin.routing import Router
from kshare.admin.share_states import share_states
from kshare.net.pool import Pool
from kshare.state.share_records import UNINITIALIZED_START_OFFSET, SharePartitionKey
from tests.cli.exporting import exporter, metrics
from tests.cli.running import kshare
from tests.exporter.running_exporter import labels
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, WorkQueue, in_thread

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]

RECORDS = 30


@pytest.mark.parametrize("reset", ["earliest", "latest"])
async def test_lag_before_anything_is_settled(fresh_queue: FreshQueue, reset: str) -> None:
    queue = fresh_queue(settings={"share.auto.offset.reset": reset})
    await queue.produce(RECORDS)
    async with queue.consumer(acknowledgement="explicit") as consumer:
        if reset == "latest":
            with anyio.move_on_after(5.0):  # the group starts here
                await consumer.next_batch()
            await queue.produce(1)
        with anyio.fail_after(DEADLINE_S):
            assert await consumer.next_batch()
        await check_brokers(queue)
        lag = RECORDS if reset == "earliest" else None
        assert await lags(queue) == dict.fromkeys(("describe", "lag", "top", "state"), lag)
        await in_thread(check_exporter, queue, lag)


async def check_brokers(queue: WorkQueue) -> None:
    """What brokers report and store: no start offset."""
    async with AdminClient(queue.broker.bootstrap) as admin:
        (offset,) = await admin.share_group_offsets(queue.group)
        assert (offset.start_offset, offset.lag) == (None, None)
        (topic_id,) = [topic.topic_id for topic in await admin.list_topics() if topic.topic == queue.topic]
    settings = admin_settings(queue.broker.bootstrap, {})
    async with Pool(settings) as pool:
        where = SharePartitionKey(queue.group, topic_id, 0)
        state = (await share_states(Router(pool, settings.request_timeout), [where]))[where]
    assert (state.start_offset, state.ranges) == (UNINITIALIZED_START_OFFSET, ())


async def lags(queue: WorkQueue) -> dict[str, int | None]:
    """The lag of the group's only partition, by command."""
    where = ("-b", queue.broker.bootstrap)
    ((described,),) = [row["offsets"] for row in await form("groups", "describe", queue.group, *where)]
    (group,) = await form("lag", "--group", queue.group, *where)
    top = await form("top", "--once", "--interval", "0.1", "--group", queue.group, *where)
    (state,) = await form("state", queue.group, *where)
    assert top["groups"][0]["lag"] == top["partitions"][0]["lag"]
    return {
        "describe": described["lag"],
        "lag": group["lag"],
        "top": top["partitions"][0]["lag"],
        "state": state["lag"],
    }


async def form(*words: str) -> Any:
    done = await anyio.to_thread.run_sync(functools.partial(kshare, *words, "--json"))
    return json.loads(done.out)


def check_exporter(queue: WorkQueue, lag: int | None) -> None:
    where = labels(group=queue.group)
    with exporter(queue.broker.bootstrap, "--group", queue.group, "--interval", "1") as address:
        while where not in (found := metrics(address)).get("kshare_group_members", {}):
            pass
        assert found.get("kshare_group_lag_records", {}).get(where) == lag
        assert (where in found.get("kshare_group_oldest_unsettled_seconds", {})) == (lag is not None)
        if lag is not None:
            assert ask(address, queue.group) == (200, lag)
        else:
            status, said = ask(address, queue.group)
            assert (status, "share.auto.offset.reset is latest" in said) == (503, True)


def ask(address: str, group: str) -> tuple[int, Any]:
    """The lag as an autoscaler reads it, or the error."""
    try:
        with urlopen(f"{address}/groups/{group}", timeout=DEADLINE_S) as response:
            return response.status, json.load(response)["lag"]
    except HTTPError as error:
        return error.code, json.load(error)["error"]
