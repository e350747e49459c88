"""The result of a check, with a suggested command."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckLevel(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, but may cause trouble."""
    PROBLEM = "problem"
    """Share groups don't work, or not for this user."""
    UNKNOWN = "unknown"
    """It couldn't be checked."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    check: str
    level: CheckLevel
    text: str
    todo: tuple[str, ...] = ()
    """Shell commands, or lines for a broker's server.properties if a comment says so."""


def ok(check: str, text: str) -> CheckResult:
    return CheckResult(check, CheckLevel.OK, text)


def warning(check: str, text: str, *todo: str) -> CheckResult:
    return CheckResult(check, CheckLevel.WARNING, text, todo)


def problem(check: str, text: str, *todo: str) -> CheckResult:
    return CheckResult(check, CheckLevel.PROBLEM, text, todo)


def unknown(check: str, text: str, *todo: str) -> CheckResult:
    return CheckResult(check, CheckLevel.UNKNOWN, text, todo)
