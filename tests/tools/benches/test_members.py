"""How members evaluate the output of their contenders, and whether contests name existing contenders and figures."""

from __future__ import annotations

import pytest

from tools.benches import (
    competing,
    consume,
    crowd,
    decode,
    embedded,
    latency,
    memory,
    programs,
    readers,
    sharing,
    spark,
    trace,
    worker,
)
from tools.benches.study import Study, Wishes


@pytest.mark.parametrize("has_go", [True, False])
@pytest.mark.parametrize(
    "member", [competing, consume, crowd, decode, embedded, latency, memory, sharing, spark, trace, worker]
)
def test_contests_name_existing_contenders_and_figures(
    member: object, has_go: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "has_go", lambda: has_go)
    study: Study = member.study(Wishes())  # type: ignore[attr-defined]
    figures = [figure.name for figure in study.figures]
    assert len(set(figures)) == len(figures)
    for contest in study.contests:
        assert {contest.ours, contest.theirs} <= study.trials.keys()
        assert contest.figure in figures
    if member is consume:
        assert ("franz-go, tuned" in study.trials) is has_go
        assert any("no Go" in remark for remark in study.remarks) is not has_go


def test_metered_reader() -> None:
    line = '{"records": 2000, "seconds": 0.5, "cpu": 0.004, "first": 1.25}'
    assert readers.metered([line], 2000, 9.0) == {"records": 4000, "CPU": 2.0, "first record": 1.25}


def test_apaches_tool_is_measured_from_its_first_record_to_its_end() -> None:
    said = [
        "[main] INFO something",
        "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms",
        "2026-11-21 07:37:25:591, 2026-11-21 07:37:30:500, 0.0001, 0.0, 0.19, 1, 5168 for share consumer 1",
        "2026-11-21 07:37:30:500, 2026-11-21 07:37:31:000, 3.5182, 6.9, 73049.5, 36891, 505 for share consumer 1",
        "2026-11-21 07:37:25:300, 2026-11-21 07:37:32:500, 28.6102, 3.6974, 38769.7079, 300000, 7738",
    ]
    assert readers.from_apache(said, 300_000, 0.6) == {
        "records": 150_000,
        "CPU": pytest.approx(2.0),
        "first record": pytest.approx(5.2),
    }


def test_one_busy_consumer_among_four() -> None:
    found = sharing.evaluate([[(10.0, 11.0), (11.0, 12.0)], [], [], []], records=2, ideal=0.5)
    assert found == {"time": 4.0, "least": 0, "most": 2, "busy": 25.0, "again": 0}


def test_records_handled_twice_are_counted() -> None:
    found = sharing.evaluate([[(0.0, 1.0)], [(0.0, 1.0)]], records=1, ideal=1.0)
    assert found["again"] == 1
    assert found["busy"] == 100.0


def test_consumers_without_a_record_of_a_burst_are_counted() -> None:
    assert crowd.evaluate("burst", {0: 3, 5: 1}, [0.1] * 4) == {"most": 3, "least": 0}


def test_delays_of_the_first_second_are_left_out() -> None:
    delays = [9.0] * crowd.RATE + [0.001] * crowd.RATE
    assert crowd.evaluate("paced", {0: len(delays)}, delays) == pytest.approx({"p50": 1.0, "p99": 1.0})


def test_work_is_the_same_in_every_run() -> None:
    first, second = sharing.handlers(500), sharing.handlers(500)
    assert first == second
    mixed = first["1 to 50 ms"]
    assert 1 <= min(mixed) < 5
    assert 45 < max(mixed) <= 50


def test_first_second_of_latencies_is_left_out() -> None:
    slow_start = [9.0] * latency.LEFT_OUT
    found = latency.evaluate([*slow_start, *(n / 1000 for n in range(101))], [])
    assert found == {"in hand p50": pytest.approx(50), "in hand p99": pytest.approx(99)}
    both = latency.evaluate([*slow_start, 0.001, 0.001], [*slow_start, 0.002, 0.002])
    assert both["acknowledged p50"] == pytest.approx(2)


def test_memory_growth_is_from_the_first_to_the_last_sample() -> None:
    samples = [30.0 + n for n in range(memory.SAMPLES)]
    found = memory.evaluate(samples)
    assert (found["1/10"], found["10/10"], found["growth"]) == (30.0, 39.0, 9.0)
