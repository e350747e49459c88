"""Figures of groups as they are exported; what isn't known isn't 0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshare.exporter.counters import GroupCounters
from kshare.exporter.report import Report, group_lag, report
from kshare.monitor.dead_letter_topics import DeadLetterFlaw
from kshare.monitor.snapshot import GroupReading, PartitionReading, Snapshot
from tests.exporter.readings import NOW, group, partition, snapshot


def of(now: Snapshot, before: Snapshot | None = None) -> Report:
    return report(now, before, GroupCounters())


def empty(one: PartitionReading) -> PartitionReading:
    assert one.progress is not None
    return replace(one, progress=replace(one.progress, log_start_offset=one.end))


@pytest.mark.parametrize(
    ("reading", "lag"),
    [
        (group("g", partition("g", end=9, lag=4), partition("g", 1, end=9, lag=5)), 9),
        (group("g", partition("g", end=9, lag=0)), 0),
        (group("g", partition("g", end=9, lag=4), partition("g", 1, start=None, end=9, lag=None)), None),
        (group("g", partition("g", end=9, lag=4), empty(partition("g", 1, start=None, end=0, lag=None))), 4),
        (group("g"), None),
        (group("g", partition("g", end=9, lag=4), problem="GROUP_AUTHORIZATION_FAILED"), None),
        (replace(group("g", partition("g", end=9, lag=4)), leaderless=1), None),
    ],
    ids=["sum", "nothing to do", "never fetched", "empty partition", "no partitions", "problem", "no leader"],
)
def test_the_lag_of_a_group_is_known_as_a_whole_or_not_at_all(reading: GroupReading, lag: int | None) -> None:
    assert group_lag(reading) == lag
    assert of(snapshot(reading)).groups["g"]["lag"] == lag


def test_a_window_is_pinned_if_it_is_full_and_its_start_does_not_move() -> None:
    full = partition("g", start=5, end=900, lag=800, window=(190, 200))
    moved = partition("g", start=4, end=900, lag=800, window=(190, 200))

    def pinned(before: PartitionReading | None, *, members: int = 1) -> object:
        earlier = None if before is None else snapshot(group("g", before))
        found = of(snapshot(group("g", full, members=members), moment=5), earlier)
        assert found.partitions[0]["is_window_full"] is True
        return found.groups["g"]["pinned_windows"]

    assert pinned(full) == 1
    assert pinned(moved) == 0
    assert pinned(None) == 0
    assert pinned(full, members=0) == 0


def test_dead_letters_are_those_of_the_groups_topic() -> None:
    rows = of(
        snapshot(
            replace(group("a", dead_letter_topic="dlq"), dead_letters=7),
            group("b"),
            group("c", dead_letter_topic="x"),
        )
    ).groups
    assert {name: row["dead_letters"] for name, row in rows.items()} == {"a": 7, "b": None, "c": None}
    assert {name: row["has_dead_letter_topic"] for name, row in rows.items()} == {
        "a": True,
        "b": False,
        "c": True,
    }


def test_a_dead_letter_topic_that_brokers_do_not_write_to_is_none() -> None:
    flawed = replace(group("a", dead_letter_topic="dlq"), dead_letter_flaw=DeadLetterFlaw.MISSING)
    assert of(snapshot(flawed)).groups["a"]["has_dead_letter_topic"] is False


def test_ages_are_a_share_of_the_retention() -> None:
    row = of(snapshot(group("g", partition("g", lag=1, end=1, oldest=NOW - 80, retention=100.0)))).groups["g"]
    assert (row["oldest_seconds"], row["oldest_share"]) == (80.0, 0.8)


def test_what_cannot_be_read_is_counted() -> None:
    found = of(snapshot(group("a", problem="X", members=0), group("b"), missing=("no group 'c'",)))
    assert found.unreadable == 2
    assert found.groups["a"]["members"] is None
