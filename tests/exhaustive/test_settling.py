"""Workers that settle records, in every order of events; and whether planted defects are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.exhaustive.explorer import Broken, explore
from tests.exhaustive.settling import SettlingSizes, SettlingSystem
from tests.exhaustive.settling_defects import DEFECTS
from tests.exhaustive.steady import steady

pytestmark = pytest.mark.lengthy


@pytest.mark.parametrize(
    ("sizes", "states"),
    [
        (SettlingSizes(members=1, records=1, faults=1), 100),
        (SettlingSizes(members=2, records=2, faults=0), 150),
    ],
    ids=str,
)
def test_promises_are_kept_in_every_order(sizes: SettlingSizes, states: int) -> None:
    with steady():
        found = explore(lambda: SettlingSystem(sizes))
    assert found.states >= states
    assert found.ends


@pytest.mark.parametrize(
    ("plant", "problem"), DEFECTS.items(), ids=lambda value: getattr(value, "__name__", "")
)
def test_planted_defects_are_found(plant: Callable[[], Any], problem: str) -> None:
    sizes = SettlingSizes(members=1, records=1, faults=1)
    with steady(), plant(), pytest.raises(Broken, match=problem) as found:
        explore(lambda: SettlingSystem(sizes), most_states=3_000)
    assert found.value.events
