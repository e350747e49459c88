"""Members with sessions and acknowledgements, in every order of events; and whether planted defects are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.exhaustive.explorer import Broken, explore
from tests.exhaustive.session_defects import DEFECTS
from tests.exhaustive.sessions import SessionSizes, SessionSystem
from tests.exhaustive.steady import steady

pytestmark = pytest.mark.lengthy


@pytest.mark.parametrize(
    ("sizes", "states"),
    [
        (SessionSizes(members=1, records=1, faults=1, releases=0), 250),
        (SessionSizes(members=2, records=2, faults=0, releases=1), 50),
        (SessionSizes(members=1, records=2, faults=1, releases=0, at_once=1), 250),
    ],
    ids=str,
)
def test_promises_are_kept_in_every_order(sizes: SessionSizes, states: int) -> None:
    with steady():
        found = explore(lambda: SessionSystem(sizes))
    assert found.states >= states
    assert found.ends


@pytest.mark.parametrize(
    ("plant", "problem"), DEFECTS.items(), ids=lambda value: getattr(value, "__name__", "")
)
def test_planted_defects_are_found(plant: Callable[[], Any], problem: str) -> None:
    sizes = SessionSizes(members=1, records=2, faults=1, releases=0)
    with steady(), plant(), pytest.raises(Broken, match=problem) as found:
        explore(lambda: SessionSystem(sizes), most_states=3_000)
    assert found.value.events


@pytest.mark.parametrize(
    "last",
    [["node 2 responds to A"], ["node 1 responds to A", "node 2 responds to A", "A's user accepts record 1"]],
)
def test_what_is_accepted_in_the_session_with_a_former_leader_does_not_come_again(last: list[str]) -> None:
    """Nothing had come back to tell that the leader has moved, so nobody remembered what was on its way there."""
    events = [
        "the connection of A to node 1 is cut, and the node doesn't notice",
        "a moment passes",
        "node 1 responds to A",
        "A's user accepts record 0",
        *(["A's user accepts record 1"] if len(last) == 1 else last[:1]),
        "the leader moves",
        "A hears from metadata who leads",
        *(last if len(last) == 1 else last[1:]),
    ]
    with steady():
        system = SessionSystem(SessionSizes(members=1, records=2, faults=2, releases=0))
        for event in events:
            system.do(event)
        assert [*system.problems()] == []
        assert system.members[0].accepted == {0, 1}
        system.close()
