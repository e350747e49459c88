"""Exchanges, findings and the summary as JSON objects. Without bodies: secrets in these must be masked first."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kshare.protocol.error_codes import error_name
from kshare.traffic.exchange import Exchange
from kshare.traffic.findings import Finding
from kshare.traffic.mentions import Mentions
from kshare.traffic.names import Names
from kshare.traffic.share_exchange import TYPE_NAMES, ShareExchange
from kshare.traffic.summary import Summary


def exchange_json(
    exchange: Exchange, share: ShareExchange | None, mentioned: Mentions, names: Names
) -> dict[str, Any]:
    form: dict[str, Any] = {
        "type": "exchange",
        "time": exchange.asked_at,
        "seconds": exchange.seconds,
        "connection": exchange.connection.number,
        "client": exchange.connection.client,
        "server": exchange.connection.server,
        "clientId": exchange.client_id,
        "api": exchange.api,
        "version": exchange.version,
        "correlationId": exchange.correlation_id,
        "requestBytes": len(exchange.request_frame),
        "responseBytes": None if exchange.response_frame is None else len(exchange.response_frame),
        "errors": sorted(error_name(code) for code in mentioned.errors),
    }
    if mentioned.groups:
        form["groups"] = sorted(mentioned.groups)
    if topics := names.topics(mentioned):
        form["topics"] = sorted(topics)
    if exchange.problem:
        form["problem"] = exchange.problem
    if exchange.request_surplus:
        form["requestSurplusBytes"] = exchange.request_surplus
    if exchange.response_surplus:
        form["responseSurplusBytes"] = exchange.response_surplus
    if share:
        form["share"] = _share_exchange_json(share, names)
    return form


def finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "type": "finding",
        "time": finding.time,
        "rule": finding.rule,
        "level": finding.level.value,
        "group": finding.group,
        "member": finding.member,
        "clientId": finding.client_id,
        "text": finding.text,
        "count": finding.count,
    }


def summary_json(summary: Summary) -> dict[str, Any]:
    return {
        "type": "summary",
        "exchanges": summary.exchanges,
        "undecoded": summary.undecoded,
        "apis": [
            {
                "api": api.api,
                "version": api.version,
                "count": api.count,
                "failed": api.failed,
                "unanswered": api.without_response,
                "requestBytes": api.request_bytes,
                "responseBytes": api.response_bytes,
                "medianSeconds": api.times.quantile(0.5),
                "longestSeconds": api.times.longest,
            }
            for api in summary.apis
        ],
        "members": [
            {_camel(name): value for name, value in asdict(member).items()} for member in summary.members
        ],
        "findings": [finding_json(finding) for finding in summary.findings],
    }


def _share_exchange_json(share: ShareExchange, names: Names) -> dict[str, Any]:
    return {
        "group": share.group,
        "member": share.member,
        "epoch": share.epoch,
        "isRenewing": share.is_renewing,
        "lockMs": share.lock_ms,
        "forgotten": [_where(partition, names) for partition in share.forgotten],
        "acquired": [
            {
                **_where(records.partition, names),
                "first": records.first,
                "last": records.last,
                "deliveryCount": records.delivery_count,
            }
            for records in share.acquired
        ],
        "acknowledged": [
            {**_where(ack.partition, names), "first": first, "last": last, "type": TYPE_NAMES.get(kind, kind)}
            for ack in share.acknowledged
            for first, last, kind in ack.runs()
        ],
        "error": error_name(share.error) if share.error else None,
        "partitionErrors": [
            {
                **_where(error.partition, names),
                "error": error_name(error.code),
                "isOfAcknowledging": error.is_of_acknowledging,
            }
            for error in share.errors
        ],
    }


def _where(partition: tuple[bytes, int], names: Names) -> dict[str, Any]:
    return {"topic": names.topic(partition[0]), "partition": partition[1]}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
