"""The sentences about what blocks a share-partition."""

from __future__ import annotations

from dataclasses import replace

from kshare.admin.results import Member, PartitionProgress
from kshare.monitor.troubles import (
    about_window,
    first_record,
    first_record_history,
    member_names,
    not_settling,
    stalled,
    troubles,
)

NOW = 1_000.0
FULL = PartitionProgress(
    "orders", 0, 7, 300, 0, 0, 400, window_end=107, window_limit=100, start_since=NOW - 12, start_deliveries=1
)
MEMBERS = tuple(
    Member(f"id{number}", f"truck-{number}", "10.0.0.7", None, 3, ("orders",), (("orders", 0),))
    for number in range(5)
)


def test_full_window() -> None:
    (said,) = troubles("g", [FULL], MEMBERS[:1], NOW)
    assert said == (
        "orders[0]: in-flight window full: 100 of 100 offsets, from offset 7 on, which isn't settled; 293 records "
        "behind it wait. Offset 7 has been the first unsettled one for at least 12 s, was released once and is held by "
        "truck-0 (id0) on 10.0.0.7, or by a member that had the partition before. Have it settled, or end the process "
        "that holds it (kshare groups describe g --members); kshare doctor --group g has more"
    )


def test_what_a_full_window_counts() -> None:
    nearly = replace(FULL, window_end=99, window_open=1)
    text = (
        "The window counts all offsets from the first unsettled one to the last one known to have been delivered, "
        "settled ones and gaps included"
    )
    assert about_window(FULL) == text
    assert about_window(nearly) == (
        f"{text} (91 of these 92 are settled). It counts as full from 90% of its limit on, because brokers don't tell "
        "which records behind it are locked"
    )


def test_without_members_nobody_holds_records() -> None:
    other = replace(MEMBERS[0], assignment=(("orders", 1),))
    assert list(troubles("g", [FULL], [], NOW)) == []
    assert list(troubles("g", [FULL], [other], NOW)) == []


def test_little_is_known() -> None:
    bare = replace(FULL, start_since=None, start_deliveries=0)
    assert first_record(bare, MEMBERS[:1], NOW) == (
        "Offset 7 is held by truck-0 (id0) on 10.0.0.7, or by a member that had the partition before"
    )
    assert first_record(bare, [], NOW) == "Offset 7 is assigned to no member"
    assert first_record_history(bare, NOW) == ""


def test_what_is_known_but_for_the_holder() -> None:
    assert first_record_history(FULL, NOW) == (
        "Offset 7 has been the first unsettled one for at least 12 s and was released once"
    )


def test_several_members() -> None:
    assert (
        member_names(MEMBERS[:2], is_any=True)
        == "one of truck-0 (id0) on 10.0.0.7, truck-1 (id1) on 10.0.0.7"
    )
    assert member_names(MEMBERS[:2]) == "truck-0 (id0) on 10.0.0.7, truck-1 (id1) on 10.0.0.7"
    assert member_names(MEMBERS).endswith("truck-2 (id2) on 10.0.0.7 and 2 more")


def test_nothing_settled() -> None:
    said = stalled(FULL, MEMBERS[:1], 31)
    assert (
        "orders[0]: 300 records wait from offset 7 on, and nothing was settled or released for at least 31 s."
        in said
    )
    assert "up to 100: an in-flight window full of locks" in said
    assert "full of locks" not in not_settling(MEMBERS[:1], 5, 100)
