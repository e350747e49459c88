"""Adaptive concurrency finds where throughput levels off, and follows."""

from __future__ import annotations

import pytest

from kshare import ConfigError
from kshare.worker.rules.adaptive import Adaptive, AdaptiveLimit


def run(
    limit: AdaptiveLimit, seconds: int, capacity: int, *, failing: float = 0.0, work: int = 10**9
) -> list[int]:
    """A service that responds to 10 requests a second for each caller, up to so many callers at once."""
    found = []
    done = failed = 0.0
    for second in range(seconds):
        busy = min(limit.limit, work)
        rate = 10.0 * min(busy, capacity)
        done += rate * (1 - failing)
        failed += rate * failing
        limit.observe(float(run.clock + second), int(done), int(failed), busy)  # type: ignore[attr-defined]
        found.append(limit.limit)
    run.clock += seconds  # type: ignore[attr-defined]
    return found


run.clock = 0  # type: ignore[attr-defined]


def test_grows_until_more_brings_nothing() -> None:
    found = run(AdaptiveLimit(Adaptive(most=1000)), 60, capacity=50)
    assert min(found[-20:]) >= 40
    assert max(found[-20:]) <= 80


def test_stays_within_its_bounds() -> None:
    assert set(run(AdaptiveLimit(Adaptive(least=2, most=8)), 30, capacity=10**6)[10:]) == {8}
    assert set(run(AdaptiveLimit(Adaptive(least=6, most=8)), 30, capacity=1)) <= {6, 7, 8}


def test_takes_back_while_most_runs_fail() -> None:
    limit = AdaptiveLimit(Adaptive(most=100))
    run(limit, 30, capacity=10**6)
    assert limit.limit == 100
    assert run(limit, 30, capacity=10**6, failing=0.5)[-1] == 1


def test_does_not_grow_while_there_is_too_little_to_do() -> None:
    assert set(run(AdaptiveLimit(Adaptive(most=100)), 30, capacity=10**6, work=3)) == {4}


def test_acts_once_an_interval() -> None:
    limit = AdaptiveLimit(Adaptive(most=100))
    for step in range(100):
        limit.observe(step / 100, step, 0, limit.limit)
    assert limit.limit == 4


@pytest.mark.parametrize("bounds", [(0, 1), (2, 1), (1, 10**6), (True, 2), (1, 2.5)])
def test_impossible_bounds_are_refused(bounds: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match=r"least|most"):
        Adaptive(least=bounds[0], most=bounds[1])
