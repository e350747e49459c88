"""What callers are told of their transactions on real brokers, judged by librdkafka's `read_committed`."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.helpers.transaction_ledger import visible
from tests.helpers.transaction_storm import PARTITIONS, TOPIC, TransactionStorm
from tests.integration.conftest import StartCluster
from tests.integration.reporting import write_report
from tools.kafka.cluster import Cluster
from tools.kafka.jars import NEWEST_RELEASE, TESTED_RELEASES

pytestmark = [pytest.mark.kafka]

_RATE, _RATE_OF_LONG, _COUNT = 0.2, 0.05, 200


@pytest.mark.lengthy
@pytest.mark.parametrize("release", [TESTED_RELEASES[0], NEWEST_RELEASE])
@pytest.mark.parametrize("rate", [0.0, _RATE], ids=["cancelled", "and responses lost"])
def test_callers_are_told_what_becomes_of_transactions(
    release: str, rate: float, start_cluster: StartCluster
) -> None:
    cluster = start_cluster(release)
    cluster.create_topic(TOPIC, PARTITIONS)
    storm = TransactionStorm(cluster.bootstrap, 1)
    anyio.run(storm.run, 60, rate)
    assert [*storm.ledger.problems(visible(cluster.bootstrap, TOPIC, PARTITIONS))] == []
    assert not storm.is_fenced_for_nothing, storm.ledger.summary()


@pytest.mark.long
def test_a_storm_on_three_nodes_that_stop_one_after_another(start_cluster: StartCluster) -> None:
    cluster = start_cluster(NEWEST_RELEASE, 3)
    cluster.create_topic(TOPIC, PARTITIONS, replicas=3, settings={"min.insync.replicas": "2"})
    seed = random.randrange(2**32)
    storms = [TransactionStorm(cluster.bootstrap, seed + index, name=f"storm-{index}") for index in range(3)]
    stops = anyio.run(_run, cluster, storms)
    found = visible(cluster.bootstrap, TOPIC, PARTITIONS)
    problems: list[str] = []
    for index, storm in enumerate(storms):
        problems += storm.ledger.problems(value for value in found if value.startswith(b"storm-%d " % index))
    write_report(
        Path("transactions.md"), "Transactions: told and seen", _report(seed, stops, storms, problems)
    )
    assert problems == [], f"seed {seed}"


async def _run(cluster: Cluster, storms: list[TransactionStorm]) -> int:
    """Nodes stop, one after another, each coordinator and leader in turn, until all storms have ended."""
    remaining, stops = len(storms), 0

    async def run(storm: TransactionStorm) -> None:
        nonlocal remaining
        await storm.run(_COUNT, _RATE_OF_LONG)
        remaining -= 1

    async with anyio.create_task_group() as tasks:
        for storm in storms:
            tasks.start_soon(run, storm)
        while remaining and stops < 200:
            node = cluster.nodes[stops % len(cluster.nodes)]
            await anyio.to_thread.run_sync(node.stop if stops % 2 else node.kill)
            await anyio.to_thread.run_sync(cluster.restart, node)
            stops += 1
            await anyio.sleep(0.4)  # the next one, as soon as all are ready again
    return stops


def _report(seed: int, stops: int, storms: list[TransactionStorm], problems: list[str]) -> str:
    lost: Counter[str] = Counter()
    for storm in storms:
        lost.update(storm.lost)
    lines = [
        "Three nodes, and three producers with a transactional id each. Their transactions are committed, fail, or are",
        "cancelled at random: by a scope, a task, a timeout. Other tasks write meanwhile. Nodes are killed or stopped,",
        "one after another. Requests are lost, or their responses, or they are executed later. Afterwards, librdkafka",
        "reads the topic with `read_committed`: what callers were told to be committed must be visible once, what was",
        "aborted must not be visible, and of what is open, all records or none.",
        "",
        f"- seed {seed}, {stops} nodes killed or stopped",
        *(f"- {storm.ledger.summary()}" for storm in storms),
        f"- {len(problems)} outcomes told wrongly",
        *(f"- {problem}" for problem in problems),
        "",
        "| request | times |",
        "|---|---|",
        *(f"| {what} | {lost[what]} |" for what in sorted(lost)),
    ]
    return "\n".join(lines)
