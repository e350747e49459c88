"""`kshare groups` and Kafka's own tool show the same for the same cluster."""

from __future__ import annotations

import pytest

from kshare import sync
from tests.integration.conftest import FreshGroup, FreshTopic
from tests.integration.producing import produce_in_turn
from tests.integration.share_group_tools import ours, shown, theirs
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java]


def test_lists_offsets_members_and_states_match_kafkas_tool(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(2), fresh_group()
    produce_in_turn(kafka, topic, 7)
    with sync.ShareConsumer(kafka.bootstrap, group=group, topics=[topic], client_id="truck") as consumer:
        records = iter(consumer)
        for _ in range(3):
            next(records)
        (found,) = ours(kafka, "describe", group, "--members", "--state")
        (member,) = found["members"]
        (row,) = theirs(kafka, "--describe", "--group", group, "--members", "--verbose")
        assert row == [
            group,
            member["member_id"],
            f"/{member['host']}",  # as Java writes an address without a name
            "truck",
            "2",
            str(member["epoch"]),
            f"{topic}:0,1",
        ]
        (row,) = theirs(kafka, "--describe", "--group", group, "--state", "--verbose")
        assert row[1:] == [
            found["coordinator_address"],
            f"({found['coordinator']})",
            found["state"],
            str(found["epoch"]),
            str(found["assignment_epoch"]),
            "1",
        ]
    listed = {our["group"]: our["state"] for our in ours(kafka, "list")}
    theirs_listed = {str(name): state for name, state in theirs(kafka, "--list", "--state")}
    # Groups of other tests may lose a killed member in between, so their states may differ.
    assert listed.keys() == theirs_listed.keys()
    assert listed[group] == theirs_listed[group] == "Empty"
    (found,) = ours(kafka, "describe", group)
    offsets = [
        [
            *(group, row["topic"]),
            *map(shown, (row["partition"], row["leader_epoch"], row["start_offset"], row["lag"])),
        ]
        for row in found["offsets"]
    ]
    rows = sorted(theirs(kafka, "--describe", "--group", group, "--offsets", "--verbose"))
    assert [row[:5] for row in rows] == [row[:5] for row in offsets]
    if kafka.release.startswith("4.1"):
        # Its brokers don't report the lag, so Kafka's tool shows none. Ours computes it from the log.
        assert [row[5:] for row in rows] == [["-"]] * 2
    else:
        assert [row[5:] for row in rows] == [row[5:] for row in offsets]
    assert len(rows) == 2
    reset = ours(kafka, "reset-offsets", group, "--to-latest", "--topic", topic, "--dry-run")
    rows = sorted(
        theirs(kafka, "--reset-offsets", "--group", group, "--to-latest", "--topic", topic, "--dry-run")
    )
    assert rows == [
        [group, row["topic"], *map(shown, (row["partition"], row["after"]))] for row in reset["offsets"]
    ]
