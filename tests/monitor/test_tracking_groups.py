"""Groups that keep track of dead letters are recognized by the name that `kshare dlq` gives them."""

from __future__ import annotations

from kshare.dead_letters.letter_states import default_group
from kshare.monitor.figures import TableView, figures
from kshare.monitor.tracking_groups import is_tracking
from tests.exporter.readings import group, partition, snapshot

TRACKER = default_group("dlq.orders")


def test_names() -> None:
    assert is_tracking(TRACKER)
    assert not is_tracking("orders")


def test_totals_leave_them_out() -> None:
    orders = group("orders", partition("orders", end=9, lag=4), members=2)
    tracker = group(TRACKER, partition(TRACKER, end=9, lag=5))
    found = figures(snapshot(orders, tracker), None)
    assert [row["group"] for row in found.rows[TableView.GROUPS]] == ["orders", TRACKER]
    assert found.summary == {"groups": 1, "members": 2, "lag": 4, "unknown_lags": 0}
