"""What a bound on timestamps leaves of ranges."""

from __future__ import annotations

import pytest

from kshare.spark.range_filters import since
from kshare.spark.ranges import RecordRange


@pytest.mark.parametrize(
    ("start", "log_start", "left"),
    [
        (0, 0, [(10, 19)]),
        (15, 0, [(15, 19)]),
        (19, 0, [(19, 19)]),
        (20, 0, []),
        (-1, 0, []),
        # What retention has removed may have been new enough: it stays, and reading it reports the loss.
        (15, 12, [(10, 11), (15, 19)]),
        (12, 12, [(10, 19)]),
        (-1, 12, [(10, 11)]),
        (30, 25, [(10, 19)]),
    ],
)
def test_offsets_before_the_first_new_record_are_left_out(
    start: int, log_start: int, left: list[tuple[int, int]]
) -> None:
    ranges = [RecordRange("orders", "1", 0, 10, 19, 2)]
    found = since(ranges, {("orders", 0): start}, {("orders", 0): log_start})
    assert [(one.first, one.last) for one in found] == left
