"""Prints results of checks as they arrive, with suggested commands, or as JSON at the end.

Of results in a row that say the same, such as those of groups without problems, the first few are printed, and the
others counted. JSON has them all.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.screen import PROBLEM, Screen
from kshare.cli.terminal.table import show_json
from kshare.doctor.check_result import CheckLevel, CheckResult

_STYLES = {
    CheckLevel.OK: "green",
    CheckLevel.WARNING: "yellow",
    CheckLevel.PROBLEM: PROBLEM,
    CheckLevel.UNKNOWN: "dim",
}
_MARGIN = 9
_MOST_ALIKE = 3


class CheckReport:
    def __init__(self, is_json: bool) -> None:
        self._is_json = is_json
        self._screen = Screen()
        self._found: list[CheckResult] = []
        self._alike: list[CheckResult] = []
        """The last ones in a row that say the same."""

    def add(self, result: CheckResult) -> None:
        self._found.append(result)
        if self._is_json:
            return
        if not self._alike or not _are_alike(self._alike[0], result):
            self.count_others()
        self._alike.append(result)
        if len(self._alike) <= _MOST_ALIKE:
            self._show(result)

    def count_others(self) -> None:
        """Print what was held back. Call it also if the checks were interrupted."""
        others, self._alike = self._alike[_MOST_ALIKE:], []
        if len(others) == 1:
            self._show(others[0])
        elif others:
            self._show(replace(others[0], check=f"{len(others)} more"))

    def _show(self, result: CheckResult) -> None:
        style = _STYLES[result.level]
        first = result.level.ljust(_MARGIN), style
        self._screen.paragraph(first, f"{result.check}: {result.text}", _MARGIN)
        for line in result.todo:
            self._screen.whole((" " * _MARGIN, ""), (line, "cyan"))

    def end(self) -> None:
        """Raises Failure if there is a problem, so that scripts can check the exit code."""
        self.count_others()
        if self._is_json:
            show_json(self._screen, [asdict(result) for result in self._found])
        self._screen.done()
        problems = sum(result.level is CheckLevel.PROBLEM for result in self._found)
        if problems:
            raise Failure("1 problem was found" if problems == 1 else f"{problems} problems were found")


def _are_alike(one: CheckResult, other: CheckResult) -> bool:
    """Whether nobody needs to read both: neither is anything to do about."""
    return one.level is CheckLevel.OK and not one.todo and replace(one, check=other.check) == other
