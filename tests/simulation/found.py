"""Simulations that broke a promise once, made smaller with `tools/simulate --shrink`. `--found` runs them all again."""

from __future__ import annotations

from tests.simulation.consumers import ConsumerPlan
from tests.simulation.workers import WorkerPlan
from tests.simulation.working import (
    ALWAYS_HANGS,
    BLOCKS,
    FAILS_TWICE,
    HANGS,
    PAUSES,
    REJECTED,
    WRONG,
    HandlerPlan,
)
from tests.simulation.world import Plan

FOUND: dict[str, tuple[str, Plan]] = {
    "records whose lock had expired were handed out, because others of their lease had been renewed": (
        "consumers",
        ConsumerPlan(
            seed=368989040,
            nodes=1,
            partitions=2,
            lasts_s=20.0,
            rate=0.0,
            delay_s=0.05,
            capacity=1048576,
            faults=frozenset({"corrupt", "leader", "cut", "refuse", "kill", "responses", "stall"}),
            consumers=3,
            lock_s=1.0,
            limit=5,
            calm_s=300.0,
        ),
    ),
    "a node that started again at once wasn't reached any more, because of the simulated network": (
        "workers",
        WorkerPlan(
            seed=98962541,
            nodes=2,
            partitions=1,
            lasts_s=10.0,
            rate=0.0,
            delay_s=0.002,
            capacity=4096,
            faults=frozenset({"down", "leader", "refuse", "stall", "node"}),
            workers=1,
            lock_s=1.0,
            limit=5,
            handlers=HandlerPlan(
                concurrency=20,
                attempts=3,
                batch_size=0,
                has_retry_topics=False,
                is_ordered=False,
                has_breaker=False,
                publishes=False,
                keeps_letters=True,
                moves_runs=False,
                time_limit_s=0.5,
                drain_s=10.0,
                oddities=frozenset({BLOCKS}),
            ),
        ),
    ),
    "a handler was called after the lock of its record had expired, while a connection hung": (
        "workers",
        WorkerPlan(
            seed=54082,
            nodes=1,
            partitions=1,
            lasts_s=10.0,
            rate=0.03,
            delay_s=0.002,
            capacity=1048576,
            faults=frozenset({"down", "stop", "limits", "kill", "responses", "stall"}),
            workers=1,
            lock_s=1.0,
            limit=5,
            stays=True,
            handlers=HandlerPlan(
                concurrency=20,
                attempts=3,
                batch_size=0,
                has_retry_topics=False,
                is_ordered=False,
                has_breaker=True,
                publishes=False,
                keeps_letters=True,
                moves_runs=False,
                time_limit_s=2.0,
                drain_s=0.2,
                oddities=frozenset({PAUSES, REJECTED, WRONG}),
            ),
        ),
    ),
    "a worker that was cancelled wrote copies for half a minute, while its broker was away": (
        "workers",
        WorkerPlan(
            seed=55010,
            nodes=1,
            partitions=2,
            lasts_s=20.0,
            rate=0.1,
            delay_s=0.002,
            capacity=4096,
            faults=frozenset(
                {"leader", "refuse", "stop_twice", "responses", "stop", "stall", "node", "limits", "kill"}
            ),
            workers=1,
            lock_s=1.5,
            limit=5,
            handlers=HandlerPlan(
                concurrency=2,
                attempts=2,
                batch_size=0,
                has_retry_topics=False,
                is_ordered=False,
                has_breaker=True,
                publishes=False,
                keeps_letters=False,
                moves_runs=False,
                time_limit_s=2.0,
                drain_s=0.2,
                oddities=frozenset({PAUSES, ALWAYS_HANGS, REJECTED, FAILS_TWICE, WRONG, HANGS}),
            ),
        ),
    ),
}
"""What was wrong → the world, and the plan."""
