"""Results of checks that say the same are counted, so that those to act on are seen."""

from __future__ import annotations

import json

import pytest

from kshare.cli.terminal.check_report import CheckReport
from kshare.doctor.check_result import CheckResult, ok, warning


def printed(capsys: pytest.CaptureFixture[str], *results: CheckResult, is_json: bool = False) -> str:
    report = CheckReport(is_json)
    for result in results:
        report.add(result)
    report.end()
    return capsys.readouterr().out


def fine(count: int) -> list[CheckResult]:
    return [ok(f"group g{number}", "no problems") for number in range(count)]


def test_a_few_are_shown_and_the_others_counted(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, *fine(103), warning("group h", "it waits"), *fine(1)).splitlines()
    assert lines == [
        "ok       group g0: no problems",
        "ok       group g1: no problems",
        "ok       group g2: no problems",
        "ok       100 more: no problems",
        "warning  group h: it waits",
        "ok       group g0: no problems",
    ]


@pytest.mark.parametrize("count", [3, 4])
def test_a_single_other_one_is_shown(capsys: pytest.CaptureFixture[str], count: int) -> None:
    assert printed(capsys, *fine(count)).count("ok       group g") == count


def test_what_there_is_to_do_is_always_shown(capsys: pytest.CaptureFixture[str]) -> None:
    advised = [ok(f"group g{number}", "could be better", "command") for number in range(9)]
    assert printed(capsys, *advised).count("command") == 9
    assert (
        printed(capsys, *[warning(f"group g{number}", "it waits") for number in range(9)]).count("waits") == 9
    )


def test_json_has_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(json.loads(printed(capsys, *fine(9), is_json=True))) == 9


def test_what_was_held_back_is_shown_if_the_checks_are_interrupted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = CheckReport(is_json=False)
    for result in fine(9):
        report.add(result)
    for _ in range(2):
        report.count_others()
    assert capsys.readouterr().out.count("6 more") == 1
