"""The linter: runs all rules, and decides which violations are reported.

The first of a kind is said at once, then the tenth, the hundredth and so on; all are counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from kshare.traffic.exchange import Exchange
from kshare.traffic.findings import Finding, Remark, Remarks, Rule
from kshare.traffic.ledger import Beat, Ledger, Step
from kshare.traffic.names import Names
from kshare.traffic.rules import RULES

_LOOK_EVERY_S = 1.0


class Linter:
    def __init__(self, ledger: Ledger, names: Names) -> None:
        self._ledger = ledger
        self._rules = [rule(names) for rule in RULES]
        # The many turns are shown to those alone who have an opinion on them.
        self._of_turns = [rule for rule in self._rules if type(rule).on_turn is not Rule.on_turn]
        self._of_all_turns = [rule for rule in self._of_turns if rule.hears_all_turns]
        self._of_beats = [rule for rule in self._rules if type(rule).on_beat is not Rule.on_beat]
        self._found: dict[tuple[object, ...], Finding] = {}
        self._looked_at = float("-inf")

    @property
    def findings(self) -> list[Finding]:
        """One of each kind, with its count."""
        return list(self._found.values())

    def turn(self, step: Step) -> list[Finding]:
        time = step.turn.exchange.ended_at
        return [
            said
            for rule in (self._of_all_turns if step.is_in_order else self._of_turns)
            for remark in rule.on_turn(step)
            if (said := self._count(rule, remark, time))
        ]

    def beat(self, beat: Beat) -> list[Finding]:
        time = beat.exchange.ended_at
        return [said for rule in self._of_beats for said in self._say(rule, rule.on_beat(beat), time)]

    def surplus(self, exchange: Exchange) -> list[Finding]:
        time = exchange.ended_at
        return [said for rule in self._rules for said in self._say(rule, rule.on_surplus(exchange), time)]

    def time(self, now: float) -> list[Finding]:
        """What follows from time alone."""
        if now - self._looked_at < _LOOK_EVERY_S:
            return []
        self._looked_at = now
        return self._look(now)

    def closed(self, number: int, now: float) -> list[Finding]:
        return [
            said
            for member, session in self._ledger.connection_closed(number)
            for rule in self._rules
            for said in self._say(rule, rule.on_closed(member, session, now), now)
        ]

    def finish(self, now: float) -> list[Finding]:
        return self._look(now) + [
            said for rule in self._rules for said in self._say(rule, rule.on_finish(self._ledger, now), now)
        ]

    def _look(self, now: float) -> list[Finding]:
        return [
            said for rule in self._rules for said in self._say(rule, rule.on_time(self._ledger, now), now)
        ]

    def _say(self, rule: Rule, remarks: Remarks, time: float) -> Iterator[Finding]:
        for remark in remarks:
            if finding := self._count(rule, remark, time):
                yield finding

    def _count(self, rule: Rule, remark: Remark, time: float) -> Finding | None:
        member = remark.member
        key = (rule.name, member, remark.subject)
        known = self._found.get(key)
        if known is None:
            self._found[key] = _finding(rule, remark, time)
            return _finding(rule, remark, time)
        known.count += 1
        if not _is_round(known.count):
            return None
        said = _finding(rule, remark, time)
        said.count = known.count
        return said


def _finding(rule: Rule, remark: Remark, time: float) -> Finding:
    member = remark.member
    group, name, client = (
        (member.group, member.id, member.client_id) if member else ("", "", remark.client_id)
    )
    return Finding(rule.name, rule.level, time, group, name, client, remark.text)


def _is_round(count: int) -> bool:
    """10, 100, 1000 ..."""
    while count % 10 == 0:
        count //= 10
    return count == 1
