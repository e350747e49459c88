"""What goes wrong in clusters of three: whatever is done to the brokers, nothing is lost, nothing comes again."""

from __future__ import annotations

import sys

import pytest

from tests.integration import faults
from tests.integration.conftest import StartCluster
from tests.integration.storm import storm_over
from tools.kafka.jars import NEWEST_RELEASE

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio]

WORKERS, RATE = 2, 300.0
AFTER_EACH = 100
"""Records that have to be accepted before the next fault."""


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


def say(capsys: pytest.CaptureFixture[str], report: str) -> None:
    """For people, whether the test passes or not."""
    with capsys.disabled():
        sys.stdout.write(f"\n{report}\n")
