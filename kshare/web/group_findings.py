"""What the checks have found about a group, for its own page."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kshare.doctor.check_result import CheckLevel, CheckResult
from kshare.doctor.group_settings import check_of

_WRONG = (CheckLevel.PROBLEM, CheckLevel.WARNING)


def findings_of(findings: Iterable[CheckResult], group: str, shown: Collection[str]) -> list[CheckResult]:
    """What is wrong, but for partitions that the page shows, such as orders[0]: there, it says what is wrong now."""
    return [
        finding
        for finding in findings
        if finding.check == check_of(group) and finding.level in _WRONG and finding.place not in shown
    ]


def todo_of(findings: Iterable[CheckResult], group: str, place: str) -> tuple[str, ...]:
    """What to do about a partition; empty until the checks have found what is wrong with it."""
    for finding in findings:
        if (finding.check, finding.place) == (check_of(group), place):
            return finding.todo
    return ()
