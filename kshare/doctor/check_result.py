"""The result of a check, with a suggested command."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kshare.monitor.severities import Trouble


class CheckLevel(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, but may cause trouble."""
    PROBLEM = "problem"
    """Share groups don't work, or not for this user; or a group has a critical trouble."""
    UNKNOWN = "unknown"
    """It can't be checked with this user's permissions, or with this release of Kafka."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    check: str
    level: CheckLevel
    text: str
    todo: tuple[str, ...] = ()
    """Shell commands, or lines for a broker's server.properties if a comment says so."""
    place: str = ""
    """The topic partition that it is about, such as orders[0], if what stands still there was found."""


def ok(check: str, text: str, *todo: str) -> CheckResult:
    return CheckResult(check, CheckLevel.OK, text, todo)


def warning(check: str, text: str, *todo: str, place: str = "") -> CheckResult:
    return CheckResult(check, CheckLevel.WARNING, text, todo, place)


def problem(check: str, text: str, *todo: str, place: str = "") -> CheckResult:
    return CheckResult(check, CheckLevel.PROBLEM, text, todo, place)


def unknown(check: str, text: str, *todo: str) -> CheckResult:
    return CheckResult(check, CheckLevel.UNKNOWN, text, todo)


def trouble(kind: Trouble, check: str, text: str, *todo: str, place: str = "") -> CheckResult:
    """As serious as the alert about it."""
    level = CheckLevel.PROBLEM if kind.is_critical else CheckLevel.WARNING
    return CheckResult(check, level, text, todo, place)
