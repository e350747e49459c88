"""A single consumer whose broker is restarted, and whose connections are cut in the middle of responses.

When a connection is lost, the broker releases all its records at once and redelivers them. Those that had been accepted
are accepted again without reaching the user. Only the record that the user held undecided is delivered twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.helpers.proxy import CuttingProxy
from tests.integration.conftest import StartCluster
from tests.integration.reporting import say, write_report
from tests.integration.storm import Storm, storm_over
from tools.kafka.cluster import Cluster
from tools.kafka.jars import NEWEST_RELEASE
from tools.kafka.listeners import Listener
from tools.kafka.ports import free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio]

RATE = 800.0
CLIENT = "cut-me"
IN_BUFFER = 300
BETWEEN = 2 * IN_BUFFER
"""Records accepted between faults. Each fault costs buffered records a delivery, and after five they are archived."""
DATA_BYTES = 1000
"""Responses at least this large contain records."""
MOST_DUPLICATES = 0.01


@asynccontextmanager
async def lone_consumer(start_cluster: StartCluster) -> AsyncIterator[tuple[Storm, CuttingProxy]]:
    """One broker behind a proxy for all clients, and one consumer, whose connections the proxy cuts."""
    broker_port, port = free_ports(2)
    proxy = CuttingProxy(port, ("127.0.0.1", broker_port), marked=CLIENT.encode())
    async with anyio.create_task_group() as tasks:
        await tasks.start(proxy.run)
        cluster: Cluster = await anyio.to_thread.run_sync(
            lambda: start_cluster(
                NEWEST_RELEASE,
                first_port=broker_port,
                advertised={Listener.PLAINTEXT: port},
            )
        )
        async with storm_over(
            cluster, 1, RATE, by_record=True, client_id=CLIENT, max_records=IN_BUFFER
        ) as storm:
            yield storm, proxy
        assert storm.history.problems() == []
        assert await storm.leaves_nothing()
        tasks.cancel_scope.cancel()


async def cut(storm: Storm, proxy: CuttingProxy) -> None:
    """Cut the connection in the middle of the next response with records."""
    before = proxy.cuts
    proxy.cut_next(DATA_BYTES)
    with anyio.fail_after(60):
        while proxy.cuts == before:
            await anyio.sleep(0.005)
    storm.history.events.append("cut a connection in the middle of a response")
    await storm.has_progressed(BETWEEN)


async def restart(storm: Storm) -> None:
    (node,) = storm.cluster.nodes

    def act() -> None:
        node.kill()
        storm.cluster.restart(node)

    await storm.note("killed the broker and restarted it", act)
    await storm.has_progressed(BETWEEN)


@pytest.mark.long
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_cuts_and_a_restart_lose_nothing_and_cause_few_duplicates(
    start_cluster: StartCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    async with lone_consumer(start_cluster) as (storm, proxy):
        for _ in range(5):
            await cut(storm, proxy)
        await restart(storm)
    say(capsys, lines(storm))
    assert storm.history.duplicates <= len(storm.history.events)


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_after_twenty_restarts_and_cuts_at_most_1_percent_of_redeliveries_reach_the_user(
    start_cluster: StartCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    async with lone_consumer(start_cluster) as (storm, proxy):
        for _ in range(20):
            await restart(storm)
            await cut(storm, proxy)
    report = lines(storm)
    say(capsys, report)
    write_report(
        Path("duplicates.md"), "A single consumer, 20 restarts of its broker and 20 cut connections", report
    )
    assert storm.history.duplicates <= MOST_DUPLICATES * redelivered(storm)


def redelivered(storm: Storm) -> int:
    """Records that the broker redelivered: those that reached the user, and those accepted again without it."""
    return storm.history.redelivered + storm.skipped


def lines(storm: Storm) -> str:
    total, seen = redelivered(storm), storm.history.duplicates
    share = f"{seen / total:.2%}" if total else "none"
    return "\n".join(
        [
            storm.history.report(),
            f"redelivered by the broker {total}: {storm.skipped} had been accepted and didn't reach the user again, "
            f"{storm.history.redelivered - seen} had never reached the user, {seen} reached the user twice ({share})",
        ]
    )
