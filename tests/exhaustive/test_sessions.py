"""Members with sessions and acknowledgements, in every order of events; and whether planted defects are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.exhaustive import sessions
from tests.exhaustive.explorer import Broken, explore
from tests.exhaustive.session_defects import DEFECTS
from tests.exhaustive.sessions import SessionSizes, SessionSystem

pytestmark = pytest.mark.lengthy


@pytest.mark.parametrize(
    ("sizes", "states"),
    [
        (SessionSizes(members=1, records=1, faults=1, releases=0), 250),
        (SessionSizes(members=2, records=2, faults=0, releases=1), 50),
    ],
    ids=str,
)
def test_promises_are_kept_in_every_order(sizes: SessionSizes, states: int) -> None:
    with sessions.modelled():
        found = explore(lambda: SessionSystem(sizes))
    assert found.states >= states
    assert found.ends


@pytest.mark.parametrize(("plant", "problem"), DEFECTS.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_planted_defects_are_found(plant: Callable[[], Any], problem: str) -> None:
    sizes = SessionSizes(members=1, records=2, faults=1, releases=0)
    with sessions.modelled(), plant(), pytest.raises(Broken, match=problem) as found:
        explore(lambda: SessionSystem(sizes), most_states=3_000)
    assert found.value.events
