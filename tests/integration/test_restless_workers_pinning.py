"""What is measured of records that pin in-flight windows."""

from __future__ import annotations

from kshare.admin.results import PartitionProgress
from tests.integration.restless_workers.pinning import Pinning


def row(start: int | None, window_end: int | None, partition: int = 0) -> PartitionProgress:
    return PartitionProgress("orders", partition, start, None, 0, 0, 1_000, window_end=window_end)


def test_the_longest_time_of_one_offset_counts() -> None:
    pinning = Pinning(100)
    pinning.look([row(0, 101), row(5, 200, partition=1)], 10.0)
    pinning.look([row(0, 150), row(6, 200, partition=1)], 12.0)
    pinning.look([row(0, 200), row(6, 200, partition=1)], 13.5)
    assert (pinning.longest_s, pinning.longest) == (3.5, "orders[0]@0")


def test_what_pins_no_more_than_it_may_does_not_count() -> None:
    pinning = Pinning(100)
    for now, rows in (
        (0.0, [row(0, 100)]),
        (9.0, [row(0, 101)]),
        (18.0, [row(0, 100)]),
        (27.0, [row(0, 101)]),
    ):
        pinning.look(rows, now)
    pinning.look([row(None, None)], 36.0)
    assert pinning.longest_s == 0.0
