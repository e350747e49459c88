"""The summary of observed traffic: by member, by API, and all findings with their counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from kshare.traffic.exchange import Exchange
from kshare.traffic.findings import Finding
from kshare.traffic.group_tracker import GroupTracker
from kshare.traffic.latencies import Latencies
from kshare.traffic.members import ObservedMember
from kshare.traffic.mentions import Mentions
from kshare.traffic.share_exchange import TYPE_NAMES


@dataclass(slots=True)
class ApiTotals:
    """Totals of one API in one version."""

    api: str
    version: int
    count: int = 0
    failed: int = 0
    without_response: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    times: Latencies = field(default_factory=Latencies)


@dataclass(frozen=True, slots=True)
class MemberTotals:
    group: str
    member: str
    client_id: str | None
    fetches: int
    acquired: int
    redelivered: int
    acknowledged: dict[str, int]
    """Records by type: accept, release, reject, renew, gap."""
    refused: int
    resets: int
    held: int
    """Records whose lock hasn't expired."""
    next_deadline_s: float | None
    """Seconds until the first of those locks expires."""
    latency_median_s: float | None
    latency_99_s: float | None
    latency_max_s: float | None
    """The three latencies are the time from acquiring records to settling them."""


@dataclass(frozen=True, slots=True)
class Summary:
    apis: list[ApiTotals]
    members: list[MemberTotals]
    findings: list[Finding]
    exchanges: int
    undecoded: int


class TrafficTotals:
    """Running totals of all exchanges."""

    def __init__(self) -> None:
        self._apis: dict[tuple[str, int], ApiTotals] = {}
        self.exchanges = 0
        self.undecoded = 0

    def add(self, exchange: Exchange, mentioned: Mentions) -> None:
        self.exchanges += 1
        self.undecoded += bool(exchange.problem)
        key = (exchange.api, exchange.version)
        sums = self._apis.get(key)
        if sums is None:
            sums = self._apis[key] = ApiTotals(*key)
        sums.count += 1
        sums.failed += bool(mentioned.errors)
        sums.request_bytes += len(exchange.request_frame)
        if exchange.response_frame is not None:
            sums.response_bytes += len(exchange.response_frame)
        if exchange.seconds is not None:
            sums.times.add(exchange.seconds)
        elif exchange.expects_response:
            sums.without_response += 1

    def summary(self, tracker: GroupTracker, findings: list[Finding], now: float) -> Summary:
        members = [
            _member(member, now)
            for member in tracker.members.values()
            if member.fetches or member.heartbeat_at is not None
        ]
        apis = sorted(self._apis.values(), key=lambda api: -api.count)
        return Summary(apis, members, findings, self.exchanges, self.undecoded)


def _member(member: ObservedMember, now: float) -> MemberTotals:
    held_leases = [
        (count, lease.deadline)
        for session in member.sessions.values()
        for _, count, lease in session.leases()
        if lease.deadline > now
    ]
    times = member.latencies
    return MemberTotals(
        member.group,
        member.id,
        member.client_id,
        member.fetches,
        member.acquired,
        member.redelivered,
        {TYPE_NAMES.get(kind, str(kind)): count for kind, count in sorted(member.acknowledged.items())},
        member.refused,
        member.resets,
        sum(count for count, _ in held_leases),
        min((deadline for _, deadline in held_leases), default=now) - now if held_leases else None,
        times.quantile(0.5),
        times.quantile(0.99),
        times.longest if times.count else None,
    )
