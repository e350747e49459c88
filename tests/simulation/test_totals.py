"""Totals of many simulations: sums, and how they are told."""

from __future__ import annotations

from tests.simulation.totals import Totals


def test_totals_are_those_of_all_seeds() -> None:
    totals = Totals()
    for seed in (1, 2):
        totals.add(
            seed,
            is_bad=seed == 2,
            simulated_s=1800.0,
            cpu_s=3.6,
            counts={"written": 600},
            requests={"ShareFetch": 2},
            faults={"cut": 1},
        )
    first, happened, requests, faults, bad, again = totals.lines(9.0, "tools/simulate --world workers --seed")
    assert first == (
        "2 seeds in 9 s: 1.00 simulated hours, 1,200 records, 7 s of processor time, 2.0 ms for each simulated second"
    )
    assert happened == "what happened: 1,200 written"
    assert requests == "requests: 4, such as 4 ShareFetch"
    assert faults == "faults: 2: 2 cut"
    assert bad == "seeds that broke a promise: 1: 2"
    assert again == "what happened in the first of them: tools/simulate --world workers --seed 2"
