"""A capture as a conversation, for a page: exchanges as lines, each of which can be opened, and findings with advice.

Decides how much of a capture is read and kept. The caller bounds the time, which also bounds the memory: the worst that
was found, requests with millions of empty names, takes 100 MB for each second of reading.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from kshare.capture import CaptureError, CaptureReader
from kshare.dissect import DissectionLimit
from kshare.protocol.decompression_budget import DecompressionBudget
from kshare.traffic import AnalyzedExchange, Exchange, Filter, Finding, Severity
from kshare.traffic.exchange_text import ExchangeLine, finding_line
from kshare.traffic.names import Names
from kshare.traffic.summary import Summary
from kshare.traffic.summary_text import ADVICE, RuleFindings, findings_by_rule
from kshare.wire.captured_traffic import CapturedTraffic
from kshare.wire.exchange_readings import request_reading, response_reading
from kshare.wire.named_bytes import NamedBytes, named_bytes
from kshare.wire.value_text import page_line
from kshare.wording import counted

_MIB = 1024 * 1024
_CHUNK = 256 * 1024
_MOST_NOTES = 20


@dataclass(frozen=True, slots=True)
class CaptureLimits:
    """How much of a capture is read, and how much of it is kept."""

    bytes: int = 64 * _MIB
    connections: int = 20_000
    """Of any kind. With more than these, reading ends."""
    analyzed: int = 200_000
    """Exchanges. With more than these, reading ends."""
    frame: int = 8 * _MIB
    """Larger requests and responses aren't decoded."""
    exchanges: int = 5_000
    """Exchanges that are listed. The summary counts all that were analyzed."""
    frame_bytes: int = 16 * _MIB
    """Bytes of requests and responses that are kept. Other exchanges are listed, but can't be opened."""
    findings: int = 1_000
    """Findings that are listed: among the exchanges, and for each rule."""
    members: int = 1_000
    """Members in the summary."""
    spans: int = 20_000
    """Fields of an exchange that is opened."""


@dataclass(frozen=True, slots=True)
class ListedExchange:
    """An exchange, as a line that may be opened."""

    id: int
    """Its place in `Conversation.exchanges`."""
    time: float
    """When the response was seen, or the request if there is none; in seconds since the Unix epoch."""
    line: ExchangeLine
    """Texts with their styles, as `kshare pcap` shows them, without the time."""
    connection: int
    """The number of its connection."""
    is_failed: bool
    """Whether the broker reported an error, or it couldn't be decoded."""
    api: str
    version: int
    client_id: str | None
    seconds: float | None
    """From request to response; None without one."""
    request_size: int
    response_size: int | None
    frames: KeptFrames | None = field(repr=False)
    """None if it can't be opened: it couldn't be decoded, is a password, or too many bytes were kept."""


@dataclass(frozen=True, slots=True)
class KeptFrames:
    """A request and its response, without sizes."""

    api_key: int
    version: int
    # They may contain passwords.
    request: bytes = field(repr=False)
    response: bytes | None = field(repr=False)
    limits: CaptureLimits = field(repr=False)

    def named(self) -> dict[str, NamedBytes]:
        """`request`, and `response` if there is one: every byte named, with passwords masked."""
        unpacked = DecompressionBudget(self.limits.frame)
        limit = DissectionLimit(self.limits.spans, unpacked)
        found = {"request": named_bytes(request_reading(self.request, limit))}
        if self.response is not None:
            limit = DissectionLimit(self.limits.spans, unpacked)
            found["response"] = named_bytes(
                response_reading(self.response, self.api_key, self.version, limit)
            )
        return found


@dataclass(frozen=True, slots=True)
class ListedFinding:
    """A finding of the linter, where it was made."""

    time: float
    line: ExchangeLine
    rule: str
    level: Severity
    advice: str
    """Why it matters and what to do."""


@dataclass(slots=True)
class ListedConnection:
    """A connection of a client to a broker, with Kafka traffic."""

    number: int
    client: str
    """Address and port."""
    server: str
    client_id: str | None
    server_name: str = ""
    """The broker's node, if the capture tells it, or its address."""
    exchanges: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was read in a capture."""

    lines: list[ListedExchange | ListedFinding]
    """In the order in which they were found."""
    exchanges: list[ListedExchange]
    """Those among the lines."""
    connections: list[ListedConnection]
    summary: Summary
    """Of everything that was read: members, APIs and findings."""
    rules: list[RuleFindings]
    """The findings of the summary by rule, with advice."""
    packets: int
    damage: str
    """Where and how the capture is damaged or truncated: what follows wasn't read. Empty if it isn't."""
    notes: list[str]
    """What is missing in the capture, what in it isn't Kafka, and what was left out because of the limits."""


def read_conversation(
    data: bytes,
    is_late: Callable[[], bool],
    *,
    ports: Collection[int] = (),
    wanted: Filter | None = None,
    limits: CaptureLimits | None = None,
) -> Conversation:
    """Reads a pcap or pcapng file. Raises CaptureError if it isn't one, or is damaged before its first packet.

    `is_late` is asked before each packet: if it returns True, what was read so far is returned. `ports` are server
    ports; other connections are left out. `wanted` selects exchanges to list, while the summary is about all.
    """
    limits = limits or CaptureLimits()
    listing = _Listing(wanted or Filter(), limits)
    traffic = CapturedTraffic(listing, ports, max_frame=limits.frame)
    damage = stop = ""
    try:
        stop = _read(data, traffic, listing, is_late)
    except CaptureError as problem:
        if not traffic.packets:
            raise
        damage = str(problem)
    traffic.end(is_late)
    summary = traffic.summary
    notes = [stop] if stop else []
    notes += [*listing.notes(), *islice(traffic.notes(), _MOST_NOTES)]
    if len(summary.members) > limits.members:
        notes.append(f"only the first {limits.members:,} of {len(summary.members):,} members are listed")
    rules = [
        replace(finding, members=finding.members[: limits.findings])
        for finding in findings_by_rule(summary.findings)
    ]
    return Conversation(
        listing.lines,
        listing.exchanges,
        listing.named_connections(),
        replace(summary, members=summary.members[: limits.members]),
        rules,
        traffic.packets,
        damage,
        notes,
    )


def _read(data: bytes, traffic: CapturedTraffic, listing: _Listing, is_late: Callable[[], bool]) -> str:
    """Returns why it stopped before the end; empty if it didn't."""
    limits = listing.limits
    reader = CaptureReader()
    for at in range(0, min(len(data), limits.bytes), _CHUNK):
        for packet in reader.feed(data[at : min(at + _CHUNK, limits.bytes)]):
            reason = ""
            if is_late():
                reason = "reading took too long"
            elif traffic.connections > limits.connections:
                reason = f"there are more than {limits.connections:,} connections"
            elif listing.analyzed > limits.analyzed:
                reason = f"there are more than {limits.analyzed:,} exchanges"
            if reason:
                return f"{reason}: only the first {counted(traffic.packets, 'packet')} were read"
            traffic.packet(packet)
    if len(data) > limits.bytes:
        return f"only the first {limits.bytes:,} of {len(data):,} bytes were read"
    reader.finish()
    return ""


class _Listing:
    """Keeps what was found in a capture, within the limits."""

    def __init__(self, wanted: Filter, limits: CaptureLimits) -> None:
        self.limits = limits
        self.lines: list[ListedExchange | ListedFinding] = []
        self.exchanges: list[ListedExchange] = []
        self.analyzed = 0
        self._wanted = wanted
        self._connections: dict[int, ListedConnection] = {}
        self._names: Names | None = None
        self._findings = 0
        self._matching = 0
        self._frame_bytes = 0
        self._closed = 0
        """Exchanges that are listed, but can't be opened because of the limits."""

    def show(self, analyzed: AnalyzedExchange) -> None:
        exchange = analyzed.exchange
        self.analyzed += 1
        self._names = analyzed.names
        is_failed = bool(analyzed.mentioned.errors or exchange.problem)
        self._count(exchange, is_failed)
        if self._wanted.wants(exchange, analyzed.mentioned, analyzed.names):
            self._matching += 1
            if len(self.exchanges) < self.limits.exchanges:
                self._list(analyzed, is_failed)
        self.findings(analyzed.findings)

    def findings(self, findings: list[Finding]) -> None:
        for finding in findings:
            self._findings += 1
            if self._findings <= self.limits.findings:
                self.lines.append(
                    ListedFinding(
                        finding.time,
                        page_line(finding_line(finding)),
                        finding.rule,
                        finding.level,
                        ADVICE[finding.rule],
                    )
                )

    def named_connections(self) -> list[ListedConnection]:
        """Names of nodes may be known only at the end."""
        for connection in self._connections.values():
            connection.server_name = self._names.node(connection.server) if self._names else connection.server
        return list(self._connections.values())

    def notes(self) -> Iterator[str]:
        if self._matching > len(self.exchanges):
            listed = f"{len(self.exchanges):,} of {self._matching:,} exchanges"
            yield f"only the first {listed} are listed; the summary counts all"
        if self._closed:
            yield f"{counted(self._closed, 'exchange')} can't be opened: too many bytes to keep"
        if self._findings > self.limits.findings:
            yield f"only the first {self.limits.findings:,} of {self._findings:,} findings are listed"

    def _count(self, exchange: Exchange, is_failed: bool) -> None:
        seen = exchange.connection
        found = self._connections.get(seen.number)
        if found is None:
            found = ListedConnection(seen.number, seen.client, seen.server, exchange.client_id)
            self._connections[seen.number] = found
        found.client_id = found.client_id or exchange.client_id
        found.exchanges += 1
        found.failed += is_failed

    def _list(self, analyzed: AnalyzedExchange, is_failed: bool) -> None:
        exchange = analyzed.exchange
        listed = ListedExchange(
            len(self.exchanges),
            exchange.ended_at,
            page_line(analyzed.line),
            exchange.connection.number,
            is_failed,
            exchange.api,
            exchange.version,
            exchange.client_id,
            exchange.seconds,
            len(exchange.request_frame),
            None if exchange.response_frame is None else len(exchange.response_frame),
            self._kept(exchange),
        )
        self.exchanges.append(listed)
        self.lines.append(listed)

    def _kept(self, exchange: Exchange) -> KeptFrames | None:
        if exchange.request is None or exchange.is_token:
            return None
        request, response = exchange.request_frame, exchange.response_frame
        size = len(request) + (len(response) if response is not None else 0)
        if self._frame_bytes + size > self.limits.frame_bytes:
            self._closed += 1
            return None
        self._frame_bytes += size
        return KeptFrames(
            exchange.api_key,
            exchange.version,
            bytes(request),
            None if response is None else bytes(response),
            self.limits,
        )
