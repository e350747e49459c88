"""The entry point: takes exchanges of any number of connections, reports what they mean and what is wrong.

Decides in which order names, ledger, linter and sums learn of an exchange. Time is the time of what is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kshare.traffic.exchange import Connection, Exchange
from kshare.traffic.findings import Finding
from kshare.traffic.ledger import Ledger
from kshare.traffic.linter import Linter
from kshare.traffic.mentions import Mentions, mentions
from kshare.traffic.names import Names
from kshare.traffic.summary import Summary, Sums
from kshare.traffic.turns import Turn, turn_of
from kshare.traffic.views import Line, line_of


@dataclass(slots=True, eq=False)
class Sight:
    """One exchange, with all that is known of it."""

    exchange: Exchange
    turn: Turn | None
    told: Mentions
    names: Names
    findings: list[Finding] = field(default_factory=list)

    @property
    def line(self) -> Line:
        return line_of(self.exchange, self.turn, self.told, self.names)


class Watch:
    def __init__(self) -> None:
        self.names = Names()
        self.ledger = Ledger()
        self._linter = Linter(self.ledger, self.names)
        self._sums = Sums()
        self._now = 0.0

    def see(self, exchange: Exchange) -> Sight:
        self._now = max(self._now, exchange.ended_at)
        self.names.learn(exchange)
        turn = turn_of(exchange)
        has_surplus = exchange.request_surplus or exchange.response_surplus
        told = _told(exchange, turn)
        self._sums.add(exchange, told)
        sight = Sight(exchange, turn, told, self.names, self._linter.time(self._now))
        if has_surplus:
            sight.findings += self._linter.surplus(exchange)
        if turn:
            sight.findings += self._linter.turn(self.ledger.turn(turn))
        elif beat := self.ledger.beat(exchange):
            sight.findings += self._linter.beat(beat)
        return sight

    def hole(self, number: int) -> None:
        """Bytes of this connection, in either direction, are missing here."""
        self.ledger.hole(number)

    def connection_closed(self, connection: Connection, time: float) -> list[Finding]:
        """Call it behind the exchanges that were left unanswered."""
        self._now = max(self._now, time)
        return self._linter.closed(connection.number, time)

    def finish(self, time: float | None = None) -> list[Finding]:
        """What can be said at the end only."""
        self._now = max(self._now, time or 0.0)
        return self._linter.finish(self._now)

    @property
    def summary(self) -> Summary:
        return self._sums.summary(self.ledger, self._linter.findings, self._now)


def _told(exchange: Exchange, turn: Turn | None) -> Mentions:
    """Turns know it already, and are the many."""
    if turn is None:
        return mentions(exchange.request, exchange.response)
    told = Mentions(groups={turn.group} if turn.group else set())
    told.topic_ids = {topic_id for topic_id, _ in turn.named}
    told.topic_ids |= {one.partition[0] for one in turn.acquired}
    if turn.error:
        told.errors[turn.error] = 1
    for one in turn.errors:
        told.topic_ids.add(one.partition[0])
        told.errors[one.code] = told.errors.get(one.code, 0) + 1
    return told
