"""Custody, journal and verdicts of the Spark source, in every order; and whether planted defects are found."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.exhaustive import custody
from tests.exhaustive.custody import CustodySizes, CustodySystem
from tests.exhaustive.custody_defects import JOURNAL_DEFECTS, ROW_DEFECTS
from tests.exhaustive.explorer import Broken, explore

pytestmark = pytest.mark.lengthy


@pytest.mark.parametrize(
    ("sizes", "states"),
    [
        (CustodySizes(members=1, records=2, faults=1, batch=1), 400),
        (CustodySizes(members=2, records=3, faults=0), 250),
        (CustodySizes(members=1, records=1, faults=1, has_journal=False), 150),
        (CustodySizes(members=2, records=2, faults=0, has_journal=False), 300),
    ],
    ids=str,
)
def test_promises_are_kept_in_every_order(sizes: CustodySizes, states: int) -> None:
    with custody.modelled():
        found = explore(lambda: CustodySystem(sizes))
    assert found.states >= states
    assert found.ends


@pytest.mark.parametrize(
    ("plant", "problem", "has_journal"),
    [
        *((plant, problem, True) for plant, problem in JOURNAL_DEFECTS.items()),
        *((plant, problem, False) for plant, problem in ROW_DEFECTS.items()),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_defects_are_found(plant: Callable[[], Any], problem: str, has_journal: bool) -> None:
    sizes = CustodySizes(members=1, records=2, faults=1, batch=1, has_journal=has_journal)
    with custody.modelled(), ExitStack() as stack:
        for patched in plant():
            stack.enter_context(patched)
        with pytest.raises(Broken, match=problem) as found:
            explore(lambda: CustodySystem(sizes), most_states=10_000)
    assert found.value.events
