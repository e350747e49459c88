"""How serious a stall is: as the alert about it, once it is sure."""

from __future__ import annotations

import pytest

from kshare.admin.results import Member, PartitionProgress
from kshare.admin.routing import Router
from kshare.doctor import cluster_info
from kshare.doctor.check_result import CheckLevel
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.group_health import group_health
from kshare.doctor.readings import Readings
from kshare.monitor.snapshot import GroupReading, PartitionReading, Snapshot
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.testing import Broker

pytestmark = pytest.mark.anyio
NOW = 1_800_000_000.0
MEMBER = Member("m1", "truck-7", "10.0.0.7", None, 3, ("orders",), (("orders", 0),))


def readings(quiet_s: float) -> Readings:
    """5,000 records wait, more than fit into the window, and nothing was settled for so long."""
    progress = PartitionProgress(
        "orders", 0, 10, 5000, 0, 0, 5010, window_end=10, window_limit=2000, changed_at=NOW - quiet_s
    )
    one = PartitionReading("g", "orders", 0, 10, 5010, 5000, 0, 0, NOW - 3600, progress)
    group = GroupReading("g", "Stable", (MEMBER,), (one,))
    return Readings(Snapshot(NOW - 2, 0.0, (group,)), Snapshot(NOW, 2.0, (group,)))


@pytest.mark.parametrize(("quiet_s", "level"), [(6, CheckLevel.WARNING), (31, CheckLevel.PROBLEM)])
async def test_a_stall(
    kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch, quiet_s: float, level: CheckLevel
) -> None:
    async def take_readings(router: Router, names: tuple[str, ...], members_since: None) -> Readings:
        return readings(quiet_s)

    monkeypatch.setattr(cluster_info, "take_readings", take_readings)
    async with Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool:
        info = ClusterInfo(pool, Router(pool, 10), ("g",))
        await info.discover()
        (found,) = [finding async for finding in group_health(info)]
    assert (found.level, found.place) == (level, "orders[0]")
    assert f"nothing was settled or released for at least {quiet_s} s" in found.text
