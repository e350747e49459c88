"""Findings by rule: what is forbidden first, each member once."""

from __future__ import annotations

from kshare.traffic.findings import Finding, Severity
from kshare.traffic.rules import RULES
from kshare.traffic.summary_text import findings_by_rule

FORBIDDEN = next(rule.name for rule in RULES if rule.level is Severity.PROTOCOL_ERROR)
HARMFUL = next(rule.name for rule in RULES if rule.level is Severity.HARMFUL)


def finding(rule: str, level: Severity, client: str | None, count: int) -> Finding:
    return Finding(rule, level, 1.0, "orders", "member", client, f"seen {count} times", count)


def test_findings_are_grouped_by_rule() -> None:
    first, second = findings_by_rule(
        [
            finding(HARMFUL, Severity.HARMFUL, "a", 100),
            finding(FORBIDDEN, Severity.PROTOCOL_ERROR, "a", 1),
            finding(FORBIDDEN, Severity.PROTOCOL_ERROR, "a", 3),
            finding(FORBIDDEN, Severity.PROTOCOL_ERROR, None, 2),
        ]
    )
    assert (first.rule, first.count) == (FORBIDDEN, 6)
    assert first.members == ["a of orders: seen 3 times", "? of orders: seen 2 times"]
    assert first.advice
    assert (second.rule, second.level, second.count) == (HARMFUL, Severity.HARMFUL, 100)
