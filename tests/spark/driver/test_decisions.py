"""Released rows wait, longer with each delivery, and are forgotten if they are redelivered meanwhile."""

from __future__ import annotations

import pytest

from kshare.spark.driver.decisions import DelayedReleases
from kshare.spark.driver.offset_sets import PartitionRange

PLACE = (b"\1" * 16, 0)


def span(first: int, last: int) -> PartitionRange:
    return PartitionRange(PLACE, first, last)


@pytest.mark.parametrize(
    ("first_s", "deliveries", "delay"),
    [(5, 1, 5), (5, 2, 10), (5, 3, 20), (5, 4, 30), (5, 1_000, 30), (60, 3, 60), (0, 4, 0)],
)
def test_the_delay_grows_with_the_deliveries(first_s: float, deliveries: int, delay: float) -> None:
    delayed = DelayedReleases(first_s)
    delayed.add([(span(0, 9), deliveries)], now=100.0)
    assert delayed.take_due(100.0 + delay - 0.1) == []
    assert delayed.take_due(100.0 + delay) == [span(0, 9)]
    assert delayed.take_due(1e9) == []


def test_redelivered_rows_no_longer_wait() -> None:
    delayed = DelayedReleases(5)
    delayed.add([(span(0, 9), 1), (span(20, 20), 2)], now=0.0)
    assert delayed.total == 11
    delayed.remove(span(3, 20))
    assert delayed.total == 3
    assert delayed.take_due(60.0) == [span(0, 2)]
