"""The linter: runs all rules, and decides which violations are reported.

The first of a kind is reported at once, then the tenth, the hundredth and so on; all are counted.
"""

from __future__ import annotations

from collections.abc import Iterable

from kshare.traffic.exchange import Exchange
from kshare.traffic.findings import Finding, LinterRule, Violation, Violations
from kshare.traffic.group_tracker import GroupTracker, HeartbeatEvent, ShareEvent
from kshare.traffic.names import Names
from kshare.traffic.rules import RULES

_LOOK_EVERY_S = 1.0


class Linter:
    def __init__(self, tracker: GroupTracker, names: Names) -> None:
        self._tracker = tracker
        self._rules = [rule(names) for rule in RULES]
        # Share exchanges are frequent, so only rules that check them are called.
        self._share_rules = [
            rule for rule in self._rules if type(rule).on_share_exchange is not LinterRule.on_share_exchange
        ]
        self._share_rules_for_all = [rule for rule in self._share_rules if rule.sees_all_exchanges]
        self._heartbeat_rules = [
            rule for rule in self._rules if type(rule).on_heartbeat is not LinterRule.on_heartbeat
        ]
        self._found: dict[tuple[object, ...], Finding] = {}
        self._looked_at = float("-inf")

    @property
    def findings(self) -> list[Finding]:
        """One of each kind, with its count."""
        return list(self._found.values())

    def share(self, event: ShareEvent) -> list[Finding]:
        time = event.share.exchange.ended_at
        return [
            finding
            for rule in (self._share_rules_for_all if event.is_in_order else self._share_rules)
            for violation in rule.on_share_exchange(event)
            if (finding := self._count(rule, violation, time))
        ]

    def heartbeat_event(self, heartbeat_event: HeartbeatEvent) -> list[Finding]:
        broken = ((rule, rule.on_heartbeat(heartbeat_event)) for rule in self._heartbeat_rules)
        return self._findings(broken, heartbeat_event.exchange.ended_at)

    def surplus(self, exchange: Exchange) -> list[Finding]:
        broken = ((rule, rule.on_surplus(exchange)) for rule in self._rules)
        return self._findings(broken, exchange.ended_at)

    def time(self, now: float) -> list[Finding]:
        """Returns findings that depend on time alone."""
        if now - self._looked_at < _LOOK_EVERY_S:
            return []
        self._looked_at = now
        return self._check_time(now)

    def closed(self, number: int, now: float) -> list[Finding]:
        broken = (
            (rule, rule.on_closed(member, session, now))
            for member, session in self._tracker.connection_closed(number)
            for rule in self._rules
        )
        return self._findings(broken, now)

    def finish(self, now: float) -> list[Finding]:
        broken = ((rule, rule.on_finish(self._tracker, now)) for rule in self._rules)
        return self._check_time(now) + self._findings(broken, now)

    def _check_time(self, now: float) -> list[Finding]:
        return self._findings(((rule, rule.on_time(self._tracker, now)) for rule in self._rules), now)

    def _findings(self, broken: Iterable[tuple[LinterRule, Violations]], time: float) -> list[Finding]:
        return [
            finding
            for rule, violations in broken
            for violation in violations
            if (finding := self._count(rule, violation, time))
        ]

    def _count(self, rule: LinterRule, violation: Violation, time: float) -> Finding | None:
        member = violation.member
        key = (rule.name, member, violation.subject)
        known = self._found.get(key)
        if known is None:
            self._found[key] = _finding(rule, violation, time)
            return _finding(rule, violation, time)
        known.count += 1
        if not _is_round(known.count):
            return None
        finding = _finding(rule, violation, time)
        finding.count = known.count
        return finding


def _finding(rule: LinterRule, violation: Violation, time: float) -> Finding:
    member = violation.member
    group, name, client = (
        (member.group, member.id, member.client_id) if member else ("", "", violation.client_id)
    )
    return Finding(rule.name, rule.level, time, group, name, client, violation.text)


def _is_round(count: int) -> bool:
    """10, 100, 1000 ..."""
    while count % 10 == 0:
        count //= 10
    return count == 1
