"""The entry point: takes exchanges of any number of connections, reports what they mean and what is wrong.

Decides in which order names, tracker, linter and totals process an exchange. The current time is that of the traffic.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kshare.traffic.exchange import Connection, Exchange
from kshare.traffic.exchange_text import ExchangeLine, exchange_line
from kshare.traffic.findings import Finding
from kshare.traffic.group_tracker import GroupTracker
from kshare.traffic.linter import Linter
from kshare.traffic.mentions import Mentions, mentions
from kshare.traffic.names import Names
from kshare.traffic.share_exchange import ShareExchange, share_exchange_of
from kshare.traffic.summary import Summary, TrafficTotals


@dataclass(slots=True, eq=False)
class AnalyzedExchange:
    """One exchange, with everything that is known about it."""

    exchange: Exchange
    share: ShareExchange | None
    mentioned: Mentions
    names: Names
    findings: list[Finding] = field(default_factory=list)

    @property
    def line(self) -> ExchangeLine:
        return exchange_line(self.exchange, self.share, self.mentioned, self.names)


class TrafficAnalyzer:
    def __init__(self) -> None:
        self.names = Names()
        self.tracker = GroupTracker()
        self._linter = Linter(self.tracker, self.names)
        self._sums = TrafficTotals()
        self._now = 0.0

    def see(self, exchange: Exchange) -> AnalyzedExchange:
        self._now = max(self._now, exchange.ended_at)
        self.names.learn(exchange)
        share = share_exchange_of(exchange)
        has_surplus = exchange.request_surplus or exchange.response_surplus
        mentioned = _mentions(exchange, share)
        self._sums.add(exchange, mentioned)
        analyzed = AnalyzedExchange(exchange, share, mentioned, self.names, self._linter.time(self._now))
        if has_surplus:
            analyzed.findings += self._linter.surplus(exchange)
        if share:
            analyzed.findings += self._linter.share(self.tracker.share(share))
        elif heartbeat_event := self.tracker.heartbeat_event(exchange):
            analyzed.findings += self._linter.heartbeat_event(heartbeat_event)
        return analyzed

    def missing_bytes(self, number: int) -> None:
        """Bytes of this connection, in either direction, are missing here."""
        self.tracker.missing_bytes(number)

    def connection_closed(self, connection: Connection, time: float) -> list[Finding]:
        """Call it after `see` for the requests without a response."""
        self._now = max(self._now, time)
        return self._linter.closed(connection.number, time)

    def finish(self, time: float | None = None) -> list[Finding]:
        """Returns the findings that can be made only at the end."""
        self._now = max(self._now, time or 0.0)
        return self._linter.finish(self._now)

    @property
    def summary(self) -> Summary:
        return self._sums.summary(self.tracker, self._linter.findings, self._now)


def _mentions(exchange: Exchange, share: ShareExchange | None) -> Mentions:
    """A faster `mentions` for share exchanges, which are the most frequent ones."""
    if share is None:
        return mentions(exchange.request, exchange.response)
    mentioned = Mentions(groups={share.group} if share.group else set())
    mentioned.topic_ids = {topic_id for topic_id, _ in share.named}
    mentioned.topic_ids |= {records.partition[0] for records in share.acquired}
    if share.error:
        mentioned.errors[share.error] = 1
    for error in share.errors:
        mentioned.topic_ids.add(error.partition[0])
        mentioned.errors[error.code] = mentioned.errors.get(error.code, 0) + 1
    return mentioned
