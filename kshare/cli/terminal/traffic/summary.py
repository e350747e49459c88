"""The summary of `kshare trace` and `kshare pcap`: members, latencies of APIs, and findings with advice."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Any

from kshare.cli.terminal.colours import FAINT, NAME, PROBLEM
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.table import show
from kshare.cli.terminal.wording import counted_large
from kshare.traffic import Finding, Severity
from kshare.traffic.exchange_text import duration_text
from kshare.traffic.rules import RULES
from kshare.traffic.share_exchange import RENEW, TYPE_NAMES
from kshare.traffic.summary import ApiTotals, MemberTotals, Summary
from kshare.traffic.traffic_json import finding_json

_ABOUT = {rule.name: rule.about for rule in RULES}
_WIDEST = 100


def show_summary(screen: Screen, summary: Summary) -> None:
    screen.line(("", ""))
    if not summary.exchanges:
        screen.line(("no Kafka traffic", FAINT))
        return
    for member in summary.members:
        _show_member(screen, member)
    show(
        screen,
        ["API", "VERSION", "TIMES", "FAILED", "MEDIAN", "99 %", "LONGEST"],
        [_api_row(one) for one in summary.apis],
        ["VERSION", "TIMES", "FAILED", "MEDIAN", "99 %", "LONGEST"],
    )
    if summary.undecoded:
        screen.line((f"{summary.undecoded} of {summary.exchanges} exchanges could not be decoded", PROBLEM))
    screen.line(("", ""))
    _show_findings(screen, summary.findings)


def summary_form(summary: Summary) -> dict[str, Any]:
    return {
        "type": "summary",
        "exchanges": summary.exchanges,
        "undecoded": summary.undecoded,
        "apis": [
            {
                "api": one.api,
                "version": one.version,
                "count": one.count,
                "failed": one.failed,
                "unanswered": one.unanswered,
                "requestBytes": one.request_bytes,
                "responseBytes": one.response_bytes,
                "medianSeconds": one.times.quantile(0.5),
                "longestSeconds": one.times.longest,
            }
            for one in summary.apis
        ],
        "members": [{_camel(name): value for name, value in asdict(one).items()} for one in summary.members],
        "findings": [finding_json(one) for one in summary.findings],
    }


def _show_member(screen: Screen, member: MemberTotals) -> None:
    screen.line(
        (member.client_id or "client without an id", NAME), (f" of {member.group} ({member.member})", "")
    )
    redelivered = f", {member.redelivered:,} of them redelivered" if member.redelivered else ""
    fetches, records = counted_large(member.fetches, "fetch", "es"), counted_large(member.acquired, "record")
    lines = [f"{fetches} acquired {records}{redelivered}"]
    renewals = TYPE_NAMES[RENEW]
    types = [f"{name} {count:,}" for name, count in member.acknowledged.items() if name != renewals]
    acknowledged = sum(count for name, count in member.acknowledged.items() if name != renewals)
    lines.append(f"acknowledged {acknowledged:,}" + (f": {', '.join(types)}" if types else ""))
    if member.latency_median_s is not None:
        lines[-1] += (
            f", after {duration_text(member.latency_median_s)} (median), "
            f"{duration_text(member.latency_99_s or 0)} (99 %), {duration_text(member.latency_max_s or 0)} (longest)"
        )
    if renewed := member.acknowledged.get(renewals):
        lines.append(f"renewed {counted_large(renewed, 'lock')}")
    if member.refused:
        lines.append(f"{counted_large(member.refused, 'acknowledgement')} refused")
    if member.resets:
        lines.append(f"{counted_large(member.resets, 'session')} lost")
    if member.next_deadline_s is not None:
        lines.append(
            f"holds {counted_large(member.held, 'record')}; the first lock expires in {member.next_deadline_s:.1f} s"
        )
    for line in lines:
        _paragraph(screen, line, "  ")
    screen.line(("", ""))


def _api_row(one: ApiTotals) -> tuple[object, ...]:
    times = [
        one.times.quantile(0.5),
        one.times.quantile(0.99),
        one.times.longest if one.times.count else None,
    ]
    return (
        one.api,
        one.version,
        f"{one.count:,}",
        f"{one.failed:,}",
        *(None if time is None else duration_text(time) for time in times),
    )


def _show_findings(screen: Screen, findings: list[Finding]) -> None:
    if not findings:
        screen.line(("no linter findings", FAINT))
        return
    by_rule: dict[str, list[Finding]] = {}
    for one in sorted(findings, key=lambda one: (one.level is not Severity.PROTOCOL_ERROR, -one.count)):
        by_rule.setdefault(one.rule, []).append(one)
    for rule, found in by_rule.items():
        level = found[0].level
        count = sum(one.count for one in found)
        style = PROBLEM if level is Severity.PROTOCOL_ERROR else "bold yellow"
        screen.line((f"{rule}", style), (f"  {level.value}, {counted_large(count, 'time')}", FAINT))
        for member_name in dict.fromkeys(f"{one.client_id or '?'} of {one.group}" for one in found):
            first = next(one for one in found if f"{one.client_id or '?'} of {one.group}" == member_name)
            _paragraph(screen, f"{member_name}: {first.text}", "  ")
        _paragraph(screen, _ABOUT[rule], "    ", FAINT)


def _paragraph(screen: Screen, text: str, indent: str, style: str = "") -> None:
    width = _WIDEST if screen.is_plain else min(screen.width, _WIDEST)
    for line in textwrap.wrap(text, max(width, 20), initial_indent=indent, subsequent_indent=indent):
        screen.line((line, style))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
