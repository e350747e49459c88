"""The result of a check, with a suggested command."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckLevel(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, and will hurt somebody."""
    PROBLEM = "problem"
    """Share groups don't work, or not for this user."""
    UNKNOWN = "unknown"
    """It couldn't be looked at."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    check: str
    level: CheckLevel
    text: str
    todo: tuple[str, ...] = ()
    """Lines for a shell, or for a broker's server.properties where it says so."""


def ok(check: str, text: str) -> CheckResult:
    return CheckResult(check, CheckLevel.OK, text)


def warning(check: str, text: str, *todo: str) -> CheckResult:
    return CheckResult(check, CheckLevel.WARNING, text, todo)


def problem(check: str, text: str, *todo: str) -> CheckResult:
    return CheckResult(check, CheckLevel.PROBLEM, text, todo)


def unknown(check: str, text: str, *todo: str) -> CheckResult:
    return CheckResult(check, CheckLevel.UNKNOWN, text, todo)
