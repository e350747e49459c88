"""Faults in clusters of three brokers: no record is lost, and none is delivered again after its confirmation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration import faults
from tests.integration.conftest import StartCluster
from tests.integration.reporting import say, write_report
from tests.integration.storm import PARTITIONS, storm_over
from tools.kafka.jars import NEWEST_RELEASE

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio]

WORKERS, RATE = 2, 300.0
KILLS = 30
AFTER_EACH = 100
"""Records that have to be accepted before the next fault."""


@pytest.mark.long
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_three_brokers_in_a_storm(
    start_cluster: StartCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = start_cluster(NEWEST_RELEASE, 3)
    async with storm_over(cluster, WORKERS, RATE) as storm:
        for strike in (
            faults.kill_a_leader,
            faults.kill_the_coordinator,
            faults.move_leaders,
            faults.freeze_a_leader,
            faults.restart_each,
        ):
            await strike(storm)
            await storm.has_progressed(AFTER_EACH)
    say(capsys, storm.history.report())
    assert storm.history.problems() == []
    assert await storm.leaves_nothing()


@pytest.mark.long
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_thirty_kills_in_one_run(
    start_cluster: StartCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills leaders and the coordinator in turn, and moves and freezes leaders in between."""
    cluster = start_cluster(NEWEST_RELEASE, 3)
    async with storm_over(cluster, 3, 3 * RATE) as storm:
        for number in range(KILLS):
            if number % 3 == 2:
                await faults.kill_the_coordinator(storm)
            else:
                await faults.kill_a_leader(storm, partition=number % PARTITIONS)
            await storm.has_progressed(AFTER_EACH)
            if number % 6 == 1:
                await faults.move_leaders(storm)
            if number % 10 == 5:
                await faults.freeze_a_leader(storm)
        await faults.restart_each(storm)
    report = storm.history.report()
    say(capsys, report)
    write_report(Path("faults.md"), f"Three brokers, three consumers, {KILLS} kills", report)
    assert storm.history.problems() == []
    assert await storm.leaves_nothing()
