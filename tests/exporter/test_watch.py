"""What the exporter costs a cluster, in requests for each reading, is what docs/exporter.md says."""

from __future__ import annotations

import re
from collections import Counter

import anyio
import pytest

from kshare import AdminClient
from kshare.admin.config import admin_settings
from kshare.admin.routing import Router
from kshare.exporter.exporter import ExporterOptions, run_exporter
from kshare.exporter.watch import SHORTEST_LIFE_S, ClusterWatch
from kshare.monitor import collect
from kshare.monitor.collect import Collector
from kshare.monitor.snapshot import Snapshot
from kshare.net.pool import Pool
from kshare.testing import Broker
from tests.exporter.running_exporter import RunningExporter, labels
from tests.helpers.documents import ROOT
from tests.helpers.rejecting import reject
from tests.helpers.running_worker import from_the_start

GUIDE = ROOT / "docs" / "exporter.md"
_ROW = re.compile(r"^\| (\d+) brokers?, (\d+) groups? with (\d+) partitions?(?: each)? \| (\d+) \| (.+) \|$")
STATED = [
    match.groups() for line in GUIDE.read_text(encoding="utf-8").splitlines() if (match := _ROW.match(line))
]


def sent(broker: Broker) -> Counter[str]:
    """Requests that the cluster has received, by API, without those by which connections are opened."""
    found: Counter[str] = Counter()
    for metric in broker.metrics():
        if metric.metric.name == "requests_total" and metric.labels["api"] != "ApiVersions":
            found[metric.labels["api"]] += int(metric.value)
    return found


async def fill(broker: Broker, groups: int, partitions: int) -> None:
    broker.create_topic("orders", partitions)
    for _ in range(partitions):
        broker.produce("orders", [b"x"])
    async with AdminClient(broker.bootstrap) as admin:
        for number in range(groups):
            offsets = {("orders", each): 0 for each in range(partitions)}
            await admin.alter_share_group_offsets(f"g{number}", offsets)


async def cost(broker: Broker) -> tuple[Counter[str], int]:
    """The requests of the third reading, as the cluster and as the exporter count them."""
    settings = admin_settings(broker.bootstrap, {})
    async with Pool(settings) as pool:
        router, watch = Router(pool, settings.request_timeout), ClusterWatch([], 5.0)
        collector = Collector(router)
        for _ in range(2):
            await watch.read(collector)
        before, counted = sent(broker), router.requests
        await watch.read(collector)
        return sent(broker) - before, router.requests - counted


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_a_bug_in_a_reading_does_not_end_the_exporter(
    kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([IndexError("list index out of range")])
    read = Collector.read

    async def fail_once(collector: Collector) -> Snapshot:
        for error in failures:
            raise error
        return await read(collector)

    monkeypatch.setattr(Collector, "read", fail_once)
    settings = admin_settings(kshare_broker.bootstrap, {})
    watch = ClusterWatch([], 0.1)
    async with Pool(settings) as pool, anyio.create_task_group() as tasks:
        tasks.start_soon(watch.run, Router(pool, settings.request_timeout))
        with anyio.fail_after(20):
            while not watch.state.failures:
                await anyio.sleep(0.01)
            assert "bug in kshare: IndexError" in watch.problem
            while watch.report is None:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_refused_connections_are_a_failed_reading_soon(
    kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests may be retried for a minute, but a reading isn't."""
    monkeypatch.setattr(collect, "_SHORTEST_RETRY_S", 0.2)
    settings = admin_settings(kshare_broker.bootstrap, {"request_timeout": 60.0})
    ports: list[int] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_exporter, settings, ExporterOptions(("127.0.0.1", 0), (), 0.1), ports.append)
        with anyio.fail_after(20):
            while not ports:
                await anyio.sleep(0.01)
            exporter = RunningExporter(ports[0])
            await exporter.until(lambda found: found["kshare_exporter_up"][labels()] == 1)
            kshare_broker.stop_node(1)
        with anyio.fail_after(SHORTEST_LIFE_S / 2):
            await exporter.until(lambda found: found["kshare_exporter_up"][labels()] == 0)
            assert (await exporter.metrics())["kshare_exporter_failures_total"][labels()] >= 1
        tasks.cancel_scope.cancel()


@pytest.mark.lengthy
@pytest.mark.anyio
@pytest.mark.parametrize(("brokers", "groups", "partitions", "total", "requests"), STATED)
async def test_requests_of_a_reading_are_as_stated(
    anyio_backend: str, brokers: str, groups: str, partitions: str, total: str, requests: str
) -> None:
    with Broker(nodes=int(brokers)) as broker:
        await fill(broker, int(groups), int(partitions))
        found, counted = await cost(broker)
    assert ", ".join(f"{count} {api}" for api, count in sorted(found.items())) == requests
    assert counted == found.total() == int(total)


@pytest.mark.anyio
async def test_a_dead_letter_topic_costs_five_more(kshare_broker: Broker, anyio_backend: str) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.create_topic("dlq.g", settings={"errors.deadletterqueue.group.enable": "true"})
    from_the_start(kshare_broker)
    kshare_broker.produce("orders", [b"x"])
    reject(kshare_broker.bootstrap, "g", "orders", 1)
    before, _ = await cost(kshare_broker)
    kshare_broker.set_group_config("g", {"errors.deadletterqueue.topic.name": "dlq.g"})
    after, _ = await cost(kshare_broker)
    assert after - before == {"Metadata": 3, "ListOffsets": 2}


def test_the_guide_states_costs() -> None:
    assert len(STATED) == 3
