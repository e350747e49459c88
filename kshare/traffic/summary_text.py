"""The summary as text: members, latencies of APIs, and findings with advice."""

from __future__ import annotations

from dataclasses import dataclass

from kshare.protocol.acknowledge_types import AcknowledgeType
from kshare.traffic.exchange_text import duration_text
from kshare.traffic.findings import Finding, Severity
from kshare.traffic.rules import RULES
from kshare.traffic.summary import ApiTotals, MemberTotals
from kshare.wording import counted

ADVICE = {rule.name: rule.about for rule in RULES}
"""By the name of a rule: why it matters and what to do."""
API_COLUMNS = ("API", "VERSION", "TIMES", "FAILED", "MEDIAN", "99 %", "LONGEST")


def member_title(member: MemberTotals) -> tuple[str, str]:
    """Its name, and where it belongs."""
    return member.client_id or "client without an id", f" of {member.group} ({member.member})"


def member_lines(member: MemberTotals) -> list[str]:
    redelivered = f", {member.redelivered:,} of them redelivered" if member.redelivered else ""
    fetches, records = counted(member.fetches, "fetch", "es"), counted(member.acquired, "record")
    lines = [f"{fetches} acquired {records}{redelivered}"]
    renewals = AcknowledgeType.RENEW.word
    types = [f"{name} {count:,}" for name, count in member.acknowledged.items() if name != renewals]
    acknowledged = sum(count for name, count in member.acknowledged.items() if name != renewals)
    lines.append(f"acknowledged {acknowledged:,}" + (f": {', '.join(types)}" if types else ""))
    if member.latency_median_s is not None:
        lines[-1] += (
            f", after {duration_text(member.latency_median_s)} (median), "
            f"{duration_text(member.latency_99_s or 0)} (99 %), {duration_text(member.latency_max_s or 0)} (longest)"
        )
    if renewed := member.acknowledged.get(renewals):
        lines.append(f"renewed {counted(renewed, 'lock')}")
    if member.refused:
        lines.append(f"{counted(member.refused, 'acknowledgement')} refused")
    if member.resets:
        lines.append(f"{counted(member.resets, 'session')} lost")
    if member.next_deadline_s is not None:
        lines.append(
            f"holds {counted(member.held, 'record')}; the first lock expires in {member.next_deadline_s:.1f} s"
        )
    return lines


def api_row(api: ApiTotals) -> tuple[object, ...]:
    """The cells of `API_COLUMNS`; None where nothing was measured."""
    times = [
        api.times.quantile(0.5),
        api.times.quantile(0.99),
        api.times.longest if api.times.count else None,
    ]
    return (
        api.api,
        api.version,
        f"{api.count:,}",
        f"{api.failed:,}",
        *(None if time is None else duration_text(time) for time in times),
    )


@dataclass(frozen=True, slots=True)
class RuleFindings:
    """All findings of one rule."""

    rule: str
    level: Severity
    count: int
    """How often the rule was broken."""
    members: list[str]
    """Who broke it, and how: for each member the first violation."""
    advice: str


def findings_by_rule(findings: list[Finding]) -> list[RuleFindings]:
    """What is forbidden comes first, and then what was found most often."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in sorted(
        findings, key=lambda finding: (finding.level is not Severity.PROTOCOL_ERROR, -finding.count)
    ):
        by_rule.setdefault(finding.rule, []).append(finding)
    return [_of_rule(rule, found) for rule, found in by_rule.items()]


def _of_rule(rule: str, found: list[Finding]) -> RuleFindings:
    members: dict[str, str] = {}
    for finding in found:
        members.setdefault(f"{finding.client_id or '?'} of {finding.group}", finding.text)
    return RuleFindings(
        rule,
        found[0].level,
        sum(finding.count for finding in found),
        [f"{name}: {text}" for name, text in members.items()],
        ADVICE[rule],
    )
