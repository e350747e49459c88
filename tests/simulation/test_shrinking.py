"""Making failing simulations smaller."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.consumers import ConsumerWorld
from tests.simulation.producers import ProducerWorld
from tests.simulation.shrinking import shrink
from tests.simulation.spark import SparkWorld
from tests.simulation.workers import WorkerWorld
from tests.simulation.working import HANGS, HELD, HandlerPlan
from tests.simulation.world import Plan

LARGE = replace(
    ConsumerWorld.drawn(1),
    nodes=3,
    partitions=8,
    consumers=3,
    lasts_s=20.0,
    rate=0.1,
    faults=frozenset(ConsumerWorld.faults),
)


def test_what_is_not_needed_is_dropped() -> None:
    told: list[Plan] = []
    least = shrink(LARGE, lambda plan: "kill" in plan.faults and plan.nodes > 1, told.append)
    assert least == replace(
        LARGE, nodes=2, partitions=1, consumers=1, lasts_s=1.0, rate=0.0, faults=frozenset({"kill"})
    )
    assert told[-1] == least
    assert all("kill" in plan.faults for plan in told)


def test_other_seeds_are_tried() -> None:
    least = shrink(LARGE, lambda plan: plan.seed == LARGE.seed + 2, lambda plan: None)
    assert (least.seed, least.faults, least.nodes) == (LARGE.seed + 2, frozenset(), 1)


def test_what_handlers_do_is_dropped() -> None:
    plan = replace(
        WorkerWorld.drawn(1), handlers=replace(HandlerPlan.drawn(1), oddities=frozenset({HELD, HANGS}))
    )
    least = shrink(plan, lambda plan: HANGS in plan.handlers.oddities, lambda plan: None)
    assert least.handlers.oddities == frozenset({HANGS})
    assert not any((least.handlers.has_breaker, least.handlers.has_retry_topics, least.handlers.batch_size))


def test_what_a_query_does_not_need_is_dropped() -> None:
    plan = replace(SparkWorld.drawn(1), settle="journal", has_folder=True, has_company=True, pauses=(0.3,))
    least = shrink(plan, lambda plan: plan.settle == "journal", lambda plan: None)
    assert (least.settle, least.has_folder, least.has_company, least.pauses) == (
        "journal",
        False,
        False,
        (0.0,),
    )


@pytest.mark.parametrize("kind", ["plain", "transactional"])
def test_one_producer_stays(kind: str) -> None:
    plan = replace(ProducerWorld.drawn(1), plain=2, transactional=2)
    least = shrink(plan, lambda plan: getattr(plan, kind) > 0, lambda plan: None)
    assert {"plain": least.plain, "transactional": least.transactional} == {
        **dict.fromkeys(("plain", "transactional"), 0),
        kind: 1,
    }
