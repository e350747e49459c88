"""Figures and ratios calculated from rounds, without a clock or processes."""

from __future__ import annotations

import time

import pytest

from tools.benches.study import Contest, Figure, Spread, Study, conduct, evaluate, study_table, timed

RATE = Figure("rate", "a second", more_is_better=True)
DELAY = Figure("delay", "ms", form=".1f")


def a_study(**trials: dict[str, float]) -> Study:
    return Study(
        "races",
        ["a remark"],
        [RATE, DELAY],
        {name: lambda figures=figures: figures for name, figures in trials.items()},  # type: ignore[misc]
        [Contest("rate", "ours", "theirs"), Contest("delay", "ours", "theirs")],
    )


def test_ratio_above_one_is_in_our_favour_for_every_figure() -> None:
    result = conduct(a_study(ours={"rate": 30, "delay": 2}, theirs={"rate": 10, "delay": 8}), 1)
    assert result.ratios == {
        "rate: ours / theirs": Spread(3, 3, 3),
        "delay: ours / theirs": Spread(4, 4, 4),
    }


def test_ratios_are_calculated_within_a_round() -> None:
    taken = {
        "ours": [{"rate": 10.0, "delay": 1.0}, {"rate": 2.0, "delay": 1.0}],
        "theirs": [{"rate": 5.0, "delay": 1.0}, {"rate": 1.0, "delay": 1.0}],
    }
    result = evaluate(a_study(ours={}, theirs={}), taken)
    assert result.ratios["rate: ours / theirs"] == Spread(2, 2, 2)
    assert result.spreads["rate"]["ours"] == Spread(2, 6, 10)


def test_contenders_alternate() -> None:
    turns: list[str] = []

    def trial(name: str) -> dict[str, float]:
        turns.append(name)
        return {"rate": 1.0, "delay": 1.0}

    study = a_study(ours={}, theirs={})
    trials = {name: lambda name=name: trial(name) for name in study.trials}
    conduct(Study("races", [], study.figures, trials, []), 2)
    assert turns == ["ours", "theirs", "ours", "theirs"]


def test_contender_without_a_figure_is_left_out_of_its_table() -> None:
    study = a_study(ours={"rate": 1}, theirs={"rate": 2, "delay": 3})
    result = conduct(Study("races", ["a remark"], study.figures, study.trials, []), 1)
    assert list(result.spreads["delay"]) == ["theirs"]
    text = study_table(result)
    assert "a remark" in text
    assert "delay, ms" in text
    assert "ratios" not in text


def test_contenders_are_selected_by_parts_of_their_names() -> None:
    study = a_study(ours={"rate": 1}, theirs={"rate": 2})
    assert list(study.only(["our"]).trials) == ["ours"]
    assert study.only(["our"]).contests == []
    assert study.only(["ou", "the"]).contests == study.contests
    assert study.only([]) is study
    with pytest.raises(ValueError, match="no contender of races is named like nobody"):
        study.only(["nobody"])


def test_series_has_one_row_per_contender() -> None:
    study = a_study(ours={"rate": 1, "delay": 2}, theirs={"rate": 3, "delay": 4.25})
    series = Study("races", [], study.figures, study.trials, [], is_series=True)
    rows = study_table(conduct(series, 1)).splitlines()
    assert rows[-3].split() == ["rate", "delay"]
    assert rows[-2].split() == ["ours", "1", "2.0"]
    assert rows[-1].split() == ["theirs", "3", "4.2"]


def test_json_has_all_spreads() -> None:
    result = conduct(a_study(ours={"rate": 30, "delay": 2}, theirs={"rate": 10, "delay": 8}), 1).as_json()
    assert result["ratios"] == {"rate: ours / theirs": 3, "delay: ours / theirs": 4}
    assert result["figures"] == {
        "rate": {
            "ours": {"low": 30, "middle": 30, "high": 30},
            "theirs": {"low": 10, "middle": 10, "high": 10},
        },
        "delay": {"ours": {"low": 2, "middle": 2, "high": 2}, "theirs": {"low": 8, "middle": 8, "high": 8}},
    }


def test_work_in_this_process_is_repeated_and_measured_for_each_unit() -> None:
    calls: list[int] = []

    def case() -> int:
        calls.append(1)
        time.sleep(0.001)
        return 10

    figures = timed(case, seconds=0.01)()
    assert figures["time"] > 0
    assert len(calls) > 2
