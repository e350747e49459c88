"""Runners that take a journal over from each other, in every order; and whether planted defects are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.exhaustive import takeover
from tests.exhaustive.explorer import Broken, explore
from tests.exhaustive.takeover import TakeoverSizes, TakeoverSystem
from tests.exhaustive.takeover_defects import DEFECTS

pytestmark = pytest.mark.lengthy


@pytest.mark.parametrize(
    ("sizes", "states"),
    [
        (TakeoverSizes(members=1, records=2, faults=1), 300),
        (TakeoverSizes(members=2, records=2, faults=0), 3_600),
    ],
    ids=str,
)
def test_promises_are_kept_in_every_order(sizes: TakeoverSizes, states: int) -> None:
    with takeover.modelled():
        found = explore(lambda: TakeoverSystem(sizes))
    assert found.states >= states
    assert found.ends


@pytest.mark.parametrize(
    ("plant", "problem"), DEFECTS.items(), ids=lambda value: getattr(value, "__name__", "")
)
def test_planted_defects_are_found(plant: Callable[[], Any], problem: str) -> None:
    sizes = TakeoverSizes(members=2, records=2, faults=0)
    with takeover.modelled(), plant(), pytest.raises(Broken, match=problem) as found:
        explore(lambda: TakeoverSystem(sizes), most_states=10_000)
    assert found.value.events
