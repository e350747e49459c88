"""Prints results of checks as they arrive, with suggested commands, or as JSON at the end."""

from __future__ import annotations

from dataclasses import asdict

from kshare.cli.terminal.colours import PROBLEM
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.table import show_json
from kshare.doctor.check_result import CheckLevel, CheckResult

_STYLES = {
    CheckLevel.OK: "green",
    CheckLevel.WARNING: "yellow",
    CheckLevel.PROBLEM: PROBLEM,
    CheckLevel.UNKNOWN: "dim",
}
_MARGIN = 9


class CheckReport:
    def __init__(self, is_json: bool) -> None:
        self._is_json = is_json
        self._screen = Screen()
        self._found: list[CheckResult] = []

    def add(self, result: CheckResult) -> None:
        self._found.append(result)
        if self._is_json:
            return
        style = _STYLES[result.level]
        first = result.level.ljust(_MARGIN), style
        self._screen.paragraph(first, f"{result.check}: {result.text}", _MARGIN)
        for line in result.todo:
            self._screen.whole((" " * _MARGIN, ""), (line, "cyan"))

    def end(self) -> None:
        """Raises Failure if there is a problem, so that scripts can check the exit code."""
        if self._is_json:
            show_json(self._screen, [asdict(one) for one in self._found])
        self._screen.done()
        problems = sum(one.level is CheckLevel.PROBLEM for one in self._found)
        if problems:
            raise Failure("1 problem was found" if problems == 1 else f"{problems} problems were found")
