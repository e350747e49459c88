"""Makes what fails smaller: drops faults, programs, partitions and time, while it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from tests.simulation.world import Plan

_SEEDS = 3
"""With how many seeds each smaller simulation is tried: what is dropped changes all that comes after it."""

PlanT = TypeVar("PlanT", bound=Plan)


def shrink(plan: PlanT, fails: Callable[[PlanT], bool], tell: Callable[[PlanT], None]) -> PlanT:
    """The first simulation of which nothing can be dropped. `tell` is called with each smaller one that fails, too."""
    while (found := next(filter(fails, _candidates(plan)), None)) is not None:
        plan = found
        tell(plan)
    return plan


def _candidates(plan: PlanT) -> Iterator[PlanT]:
    for number in range(_SEEDS):
        for smaller in plan.smaller():
            yield replace(smaller, seed=plan.seed + number)
