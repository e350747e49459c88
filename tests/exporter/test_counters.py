"""GroupCounters begin at 0 with the first reading, and neither fall nor jump, whatever the counts do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kshare.exporter.counters import GroupCounters
from kshare.monitor.snapshot import PartitionReading
from tests.exporter.readings import NOW, group, partition, snapshot


def read(counters: GroupCounters, **counts: Any) -> None:
    counters.update(snapshot(group("g", partition("g", **counts))))


def test_what_happened_before_the_first_reading_does_not_count() -> None:
    counters = GroupCounters()
    read(counters, end=100, lag=10, deliveries=90, accepted=80, released=5, archived={1: 5})
    assert counters.of_group("g") == {
        "written": 0,
        "settled": 0,
        "deliveries": 0,
        "accepted": 0,
        "released": 0,
        "archived: rejected": 0,
        "archived: delivery limit": 0,
    }
    assert counters.of_partition("g", "orders", 0) == counters.of_group("g")


def test_increases_are_counted() -> None:
    counters = GroupCounters()
    read(counters, end=100, lag=10, deliveries=90, accepted=80, released=5, archived={1: 5})
    read(counters, end=110, lag=5, deliveries=120, accepted=81, released=7, archived={1: 8, 5: 2, 6: 1})
    assert counters.of_group("g") == {
        "written": 10,
        "settled": 15,
        "deliveries": 30,
        "accepted": 1,
        "released": 2,
        "archived: rejected": 3,
        "archived: delivery limit": 3,
    }


def test_a_reset_adds_nothing_and_takes_nothing_away() -> None:
    counters = GroupCounters()
    read(counters, end=100, lag=0, accepted=50)
    read(counters, end=100, lag=0, accepted=60)
    read(counters, end=100, lag=100, accepted=0)
    read(counters, end=100, lag=97, accepted=3)
    found = counters.of_group("g")
    assert (found["accepted"], found["settled"]) == (13, 3)


def test_a_changed_delivery_limit_moves_nothing_that_was_counted() -> None:
    counters = GroupCounters()
    read(counters, archived={3: 2})
    counters.update(snapshot(group("g", partition("g", archived={3: 3}), delivery_limit=3)))
    found = counters.of_group("g")
    assert (found["archived: rejected"], found["archived: delivery limit"]) == (0, 1)


def test_partitions_that_are_away_for_a_while_keep_their_counters() -> None:
    counters = GroupCounters()
    read(counters, end=10, lag=0)
    counters.update(snapshot(group("g")))
    assert counters.of_group("g")["written"] == 0
    read(counters, end=15, lag=0)
    assert counters.of_group("g")["written"] == 5
    counters.update(snapshot())
    assert counters.of_group("g") == {}


def test_unknown_counts_begin_when_they_become_known() -> None:
    counters = GroupCounters()
    read(counters, end=10, lag=0)
    assert "accepted" not in counters.of_group("g")
    read(counters, end=10, lag=0, deliveries=900, accepted=900)
    read(counters, end=11, lag=0, deliveries=901, accepted=901)
    assert counters.of_group("g")["accepted"] == 1


# --- share-partitions that appear while the exporter runs


def appeared(**counts: Any) -> PartitionReading:
    """Brokers have stored its first state after the first reading."""
    return partition("g", **{"stored_since": NOW + 1, **counts})


def begun() -> GroupCounters:
    counters = GroupCounters()
    counters.update(snapshot())
    return counters


def test_first_work_of_a_new_group_counts() -> None:
    counters = begun()
    counters.update(
        snapshot(group("g", appeared(end=500, lag=90, deliveries=12, accepted=8, archived={1: 2})))
    )
    found = counters.of_group("g")
    assert (found["deliveries"], found["accepted"], found["archived: rejected"]) == (12, 8, 2)
    assert (found["settled"], found["written"]) == (10, 0)


def test_older_work_of_a_group_that_was_away_does_not() -> None:
    counters = begun()
    counters.update(snapshot(group("g", appeared(stored_since=NOW - 1, end=500, lag=90, accepted=8))))
    assert counters.of_group("g")["accepted"] == 0


def test_first_work_after_nothing_was_settled_counts() -> None:
    """Where it has started is unknown: the records before it weren't settled."""
    counters = GroupCounters()
    undecided = partition(
        "g", start=None, end=100, lag=None, stored_since=NOW - 50, deliveries=0, accepted=0, released=0
    )
    counters.update(snapshot(group("g", undecided)))
    assert counters.of_group("g")["accepted"] == 0
    assert "settled" not in counters.of_group("g")
    read(counters, start=97, end=104, lag=4, stored_since=NOW - 50, deliveries=4, accepted=3, released=1)
    found = counters.of_group("g")
    assert (found["settled"], found["written"]) == (3, 4)
    assert (found["deliveries"], found["accepted"], found["released"]) == (4, 3, 1)


def test_records_of_a_recreated_topic_count() -> None:
    counters = GroupCounters()
    old = partition("g", end=100, lag=10, stored_since=NOW - 50, deliveries=90, accepted=90)
    counters.update(snapshot(group("g", replace(old, topic_id=b"old"))))
    counters.update(snapshot(group("g")))
    new = appeared(end=7, lag=2, deliveries=6, accepted=5, released=1)
    counters.update(snapshot(group("g", replace(new, topic_id=b"new"))))
    found = counters.of_group("g")
    assert (found["written"], found["settled"]) == (7, 5)
    assert (found["deliveries"], found["accepted"], found["released"]) == (6, 5, 1)


def test_a_recreated_group_begins_again() -> None:
    """It was deleted and created between two readings."""
    counters = GroupCounters()
    read(counters, end=100, lag=10, stored_since=NOW - 50, deliveries=90, accepted=90)
    counters.update(snapshot(group("g", appeared(end=100, lag=97, deliveries=3, accepted=3))))
    found = counters.of_group("g")
    assert (found["deliveries"], found["accepted"], found["settled"]) == (3, 3, 3)
