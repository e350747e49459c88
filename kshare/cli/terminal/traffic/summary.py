"""Shows the summary of `kshare trace` and `kshare pcap`: members, latencies of APIs, and findings with advice."""

from __future__ import annotations

import textwrap

from kshare.cli.terminal.screen import COLOURS, FAINT, NAME, PROBLEM, Screen
from kshare.cli.terminal.table import show
from kshare.traffic.summary import MemberTotals, Summary
from kshare.traffic.summary_text import (
    API_COLUMNS,
    RuleFindings,
    api_row,
    findings_by_rule,
    member_lines,
    member_title,
)
from kshare.wording import counted

_WIDEST = 100


def show_summary(screen: Screen, summary: Summary) -> None:
    screen.line()
    if not summary.exchanges:
        screen.line(("no Kafka traffic", FAINT))
        return
    for member in summary.members:
        _show_member(screen, member)
    show(screen, API_COLUMNS, [api_row(api) for api in summary.apis], API_COLUMNS[1:])
    if summary.undecoded:
        screen.line((f"{summary.undecoded} of {summary.exchanges} exchanges could not be decoded", PROBLEM))
    screen.line()
    for broken in findings_by_rule(summary.findings):
        _show_rule(screen, broken)
    if not summary.findings:
        screen.line(("no linter findings", FAINT))


def _show_member(screen: Screen, member: MemberTotals) -> None:
    name, rest = member_title(member)
    screen.line((name, NAME), (rest, ""))
    for line in member_lines(member):
        _paragraph(screen, line, "  ")
    screen.line()


def _show_rule(screen: Screen, broken: RuleFindings) -> None:
    style = COLOURS[broken.level.value]
    screen.line((broken.rule, style), (f"  {broken.level.value}, {counted(broken.count, 'time')}", FAINT))
    for text in broken.members:
        _paragraph(screen, text, "  ")
    _paragraph(screen, broken.advice, "    ", FAINT)


def _paragraph(screen: Screen, text: str, indent: str, style: str = "") -> None:
    width = _WIDEST if screen.is_plain else min(screen.width, _WIDEST)
    for line in textwrap.wrap(text, max(width, 20), initial_indent=indent, subsequent_indent=indent):
        screen.line((line, style))
