"""One line of text per exchange: client and broker, what was acquired and acknowledged, duration and errors.

Decides what is shown of each API. Each part of a line has a kind, by which the terminal chooses its colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from itertools import islice
from typing import TypeAlias, TypeVar

from kshare.protocol.error_codes import error_name
from kshare.protocol.message import Message
from kshare.protocol.messages.api_versions_request import ApiVersionsRequest
from kshare.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kshare.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kshare.protocol.messages.produce_request import ProduceRequest
from kshare.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kshare.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kshare.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kshare.traffic.exchange import Exchange
from kshare.traffic.findings import Finding, spans_text, surplus_text
from kshare.traffic.mentions import Mentions
from kshare.traffic.names import Names
from kshare.traffic.share_exchange import TYPE_NAMES, Partition, ShareExchange

StyledText: TypeAlias = tuple[str, str]
"""A text, and its kind: plain, faint, name, acquired, acknowledged, error, or the severity of a finding."""
ExchangeLine: TypeAlias = list[StyledText]

_MOST_SPANS = 3
_MOST_PARTITIONS = 4
_ARROW: StyledText = (" → ", "faint")
_GAP: StyledText = ("  ", "plain")
_MALFORMED = -1
_SHORT_ID = 8
_KIND_NAMES = {**TYPE_NAMES, _MALFORMED: "malformed"}
KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


def exchange_line(
    exchange: Exchange, share: ShareExchange | None, mentioned: Mentions, names: Names
) -> ExchangeLine:
    """Returns the line without the time, whose format depends on the caller."""
    parts: ExchangeLine = [
        (client_text(exchange), "plain"),
        _ARROW,
        (names.node(exchange.connection.server), "plain"),
        _GAP,
        (exchange.api, "name"),
    ]
    if not exchange.is_token and exchange.api_key >= 0:
        parts.append((f" v{exchange.version}", "faint"))
    details = _share_parts(share, names) if share else _other_parts(exchange, mentioned)
    for detail in details + _ending(exchange, share, mentioned, names):
        parts += [_GAP, detail]
    return parts


def finding_line(finding: Finding) -> ExchangeLine:
    """Returns the line without the time."""
    repeat_text = f" (the {finding.count}th time)" if finding.count > 1 else ""
    level = finding.level.value
    return [
        (f"! {finding.rule}", level),
        _GAP,
        (f"{finding.client_id or finding.group} {finding.member[:_SHORT_ID]}", "plain"),
        _GAP,
        (f"{finding.text}{repeat_text}", f"{level}-text"),
    ]


def client_text(exchange: Exchange) -> str:
    return f"{exchange.client_id or exchange.connection.client}#{exchange.connection.number}"


def duration_text(seconds: float) -> str:
    if seconds < 0.0995:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 9.995 else f"{seconds:.1f} s"


# --- share sessions


def _share_parts(share: ShareExchange, names: Names) -> ExchangeLine:
    parts: ExchangeLine = [(f"epoch {share.epoch}", "plain")]
    if share.forgotten:
        parts.append((f"forgets {_partitions(share.forgotten, names)}", "plain"))
    if acks := acks_text(share, names):
        parts.append((acks, "acknowledged"))
    if acquired := acquired_text(share, names):
        parts.append((f"acquired {acquired}", "acquired"))
    elif (
        share.fetch and share.has_response and not share.error and not share.errors and not share.is_renewing
    ):
        parts.append(("nothing", "faint"))
    return parts


def acquired_text(share: ShareExchange, names: Names) -> str:
    """orders-0 100-104 x1, 105-110 x2; orders-1 7 x1"""
    found: dict[Partition, dict[int, list[tuple[int, int]]]] = {}
    for partition, first, last, count in share.acquired:
        found.setdefault(partition, {}).setdefault(count, []).append((first, last))
    texts = []
    for partition, by_count in _few(found):
        counted = [f"{spans_text(spans, _MOST_SPANS)} x{count}" for count, spans in sorted(by_count.items())]
        texts.append(f"{names.partition(*partition)} {', '.join(counted)}")
    return "; ".join(texts) + _more(found)


def acks_text(share: ShareExchange, names: Names) -> str:
    """accept orders-0 90-99, 103; release orders-0 100"""
    found: dict[tuple[int, Partition], list[tuple[int, int]]] = {}
    for ack in share.acknowledged:
        for first, last, kind in ack.runs() or [(ack.first, ack.last, _MALFORMED)]:
            found.setdefault((kind, ack.partition), []).append((first, last))
    texts = []
    for (kind, partition), spans in _few(found):
        spans.sort()
        kind_name = _KIND_NAMES.get(kind) or f"type {kind}"
        texts.append(f"{kind_name} {names.partition(*partition)} {spans_text(spans, _MOST_SPANS)}")
    return "; ".join(texts) + _more(found)


def _partitions(partitions: Iterable[Partition], names: Names) -> str:
    return ", ".join(names.partition(*partition) for partition in partitions)


def _few(found: Mapping[KeyT, ValueT]) -> Iterable[tuple[KeyT, ValueT]]:
    return islice(found.items(), _MOST_PARTITIONS)


def _more(found: Sized) -> str:
    return f"; {len(found) - _MOST_PARTITIONS} more" if len(found) > _MOST_PARTITIONS else ""


# --- everything else


def _other_parts(exchange: Exchange, mentioned: Mentions) -> ExchangeLine:
    match exchange.request:
        case ShareGroupHeartbeatRequest() as heartbeat:
            texts = _heartbeat(heartbeat, exchange.response)
        case FindCoordinatorRequest() as search:
            texts = _coordinator(search, exchange.response)
        case ApiVersionsRequest() as client:
            texts = [f"{client.client_software_name} {client.client_software_version}".strip()]
        case SaslHandshakeRequest() as handshake:
            texts = [handshake.mechanism]
        case ProduceRequest() as produced:
            texts = _produce(produced)
        case _:
            texts = [", ".join(sorted(mentioned.groups)), _limited_names(mentioned.topics)]
    return [(text, "plain") for text in texts if text]


def _limited_names(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - _MOST_PARTITIONS} more" if len(found) > _MOST_PARTITIONS else ""
    return ", ".join(found[:_MOST_PARTITIONS]) + more


def _heartbeat(request: ShareGroupHeartbeatRequest, response: Message | None) -> list[str]:
    word = {0: "joins", -1: "leaves"}.get(request.member_epoch, f"epoch {request.member_epoch}")
    texts = [request.group_id, word]
    if isinstance(response, ShareGroupHeartbeatResponse):
        if response.member_epoch not in (request.member_epoch, 0):
            texts.append(f"now epoch {response.member_epoch}")
        if response.assignment is not None:
            count = sum(len(topic.partitions) for topic in response.assignment.topic_partitions)
            texts.append(f"assigned {count} partition{'' if count == 1 else 's'}")
    return texts


def _coordinator(request: FindCoordinatorRequest, response: Message | None) -> list[str]:
    texts = [_limited_names(request.coordinator_keys or [request.key])]
    if isinstance(response, FindCoordinatorResponse):
        nodes = [coordinator.node_id for coordinator in response.coordinators] or [response.node_id]
        texts += [f"is at node {node}" for node in dict.fromkeys(nodes) if node >= 0]
    return texts


def _produce(request: ProduceRequest) -> list[str]:
    size = sum(len(data.records or b"") for topic in request.topic_data for data in topic.partition_data)
    topics = _limited_names({topic.name for topic in request.topic_data if topic.name})
    return [topics, f"{size} bytes of records", f"acks={request.acks}"]


# --- how it ended


def _ending(
    exchange: Exchange, share: ShareExchange | None, mentioned: Mentions, names: Names
) -> ExchangeLine:
    parts: ExchangeLine = []
    if share and share.error:
        parts.append((error_name(share.error), "error"))
    elif share and share.errors:
        parts += [
            (f"{names.partition(*error.partition)} {error_name(error.code)}", "error")
            for error in share.errors[:_MOST_PARTITIONS]
        ]
    elif share is None:
        parts += [(_times(error_name(code), count), "error") for code, count in mentioned.errors.items()]
    if exchange.problem:
        parts.append((exchange.problem, "error"))
    for what, size in (("request", exchange.request_surplus), ("response", exchange.response_surplus)):
        if size:
            parts.append((f"{surplus_text(size)} after the {what}", "error"))
    if (seconds := exchange.seconds) is not None:
        parts.append((duration_text(seconds), "faint"))
    elif exchange.is_unheard:
        parts.append(("the response is missing in the capture", "faint"))
    elif exchange.expects_response:
        parts.append(("no response", "error"))
    else:
        parts.append(("expects no response", "faint"))
    return parts


def _times(text: str, count: int) -> str:
    return text if count == 1 else f"{text} (x{count})"
