"""Where single records stand for a group."""

from __future__ import annotations

import pytest

from kshare.monitor.picture import record_standing
from kshare.monitor.snapshot import PartitionReading
from kshare.state.share_records import SharePartitionState, StateRange, StoredState

RANGES = (
    StateRange(5, 5, StoredState.AVAILABLE, 2),
    StateRange(6, 6, StoredState.ACKNOWLEDGED, 1),
    StateRange(7, 7, StoredState.ARCHIVED, 5),
    StateRange(8, 8, StoredState.AVAILABLE, 1),
)


def reading(start: int | None, state: SharePartitionState | None) -> PartitionReading:
    return PartitionReading("g", "orders", 0, start, 20, 10, 0, 0, None, state=state)


@pytest.mark.parametrize(
    ("offset", "standing"),
    [
        (4, "settled: before the start offset"),
        (5, "available after 2 deliveries"),
        (6, "acknowledged"),
        (7, "archived"),
        (8, "available after 1 delivery"),
        (9, "acquired or not delivered yet"),
        (99, "acquired or not delivered yet"),
    ],
)
def test_stored_states(offset: int, standing: str) -> None:
    assert record_standing(reading(5, SharePartitionState(5, RANGES, 0, 0, 0, 2)), offset) == standing


def test_without_a_stored_state() -> None:
    assert record_standing(reading(None, None), 3) == "not delivered yet"
    assert record_standing(reading(5, None), 3) == "settled: before the start offset"
    assert record_standing(reading(5, None), 6).startswith("unknown")
    undecided = SharePartitionState(-1, (), 0, 0, 0, 0)
    assert record_standing(reading(None, undecided), 3).endswith("start offset isn't decided")
