"""Workers that are started and stopped by the lag of their group: it returns below its target, and nothing is lost."""

from __future__ import annotations

import pytest

from tools.demos.scaling import Scaler, play


def test_replicas_follow_the_lag() -> None:
    scaler = Scaler(target=100, most=2, cooldown_s=0)
    decided = [scaler.decide(lag, now) for now, lag in enumerate([0, 1, 100, 101, 900, 100, 0])]
    assert decided == [0, 1, 1, 2, 2, 1, 0]


def test_an_unknown_lag_stops_nothing_and_starts_one_after_a_while() -> None:
    scaler = Scaler(target=100, most=2)
    assert [scaler.decide(None, now) for now in range(4)] == [0, 0, 1, 1]
    assert scaler.decide(900, 5) == 2
    assert [scaler.decide(None, 6 + now) for now in range(4)] == [2, 2, 2, 2]


def test_the_last_replica_stays_for_a_while() -> None:
    scaler = Scaler(target=100, most=2, cooldown_s=10)
    assert [scaler.decide(lag, now) for now, lag in [(0, 900), (5, 0), (11, 0)]] == [2, 1, 0]


@pytest.mark.lengthy
def test_two_bursts_are_shipped_by_up_to_two_processes() -> None:
    orders, target = 400, 50
    outcome = play(lambda text: None, orders=orders, target=target)
    assert {*outcome.shipped} == {f"{burst}-{number}" for burst in range(2) for number in range(orders)}
    replicas = [count for _, count in outcome.history]
    assert max(replicas) == 2
    lags = [lag for lag, _ in outcome.history if lag is not None]
    assert max(lags) > target
    assert outcome.history[-1] == (0, 0)
    assert outcome.history[0][0] is None, "a group that has never run has no lag"
