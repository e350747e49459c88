"""What groups read: their members' subscriptions, or what they have read before."""

from __future__ import annotations

from kshare.admin.results import Member
from kshare.monitor.snapshot import GroupReading, PartitionReading, Snapshot
from kshare.monitor.tracking_groups import topics_read


def partition(group: str, topic: str) -> PartitionReading:
    return PartitionReading(group, topic, 0, 0, 0, 0, 0, 0, None)


def test_members_tell_and_otherwise_what_was_read() -> None:
    members = (Member("id", "client", "host", None, 1, ("orders", "parcels"), ()),)
    groups = (
        GroupReading("packers", "Stable", members, (partition("packers", "returns"),)),
        GroupReading("idle", "Empty", (), (partition("idle", "returns"),)),
        GroupReading("kshare-dlq-orders", "Empty", (), (partition("kshare-dlq-orders", "orders"),)),
    )
    assert topics_read(Snapshot(0.0, 0.0, groups)) == {"packers": {"orders", "parcels"}, "idle": {"returns"}}
