"""Exchanges and findings as JSON, one object each. Without bodies: their secrets must be masked first."""

from __future__ import annotations

from typing import Any

from kshare.protocol.error_codes import error_name
from kshare.traffic.exchange import Exchange
from kshare.traffic.findings import Finding
from kshare.traffic.mentions import Mentions
from kshare.traffic.names import Names
from kshare.traffic.turns import TYPE_NAMES, Turn


def exchange_form(exchange: Exchange, turn: Turn | None, told: Mentions, names: Names) -> dict[str, Any]:
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
        "errors": sorted(error_name(code) for code in told.errors),
    }
    if told.groups:
        form["groups"] = sorted(told.groups)
    if topics := names.topics(told):
        form["topics"] = sorted(topics)
    if exchange.problem:
        form["problem"] = exchange.problem
    if exchange.request_surplus:
        form["requestSurplusBytes"] = exchange.request_surplus
    if exchange.response_surplus:
        form["responseSurplusBytes"] = exchange.response_surplus
    if turn:
        form["share"] = _turn_form(turn, names)
    return form


def finding_form(finding: Finding) -> dict[str, Any]:
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


def _turn_form(turn: Turn, names: Names) -> dict[str, Any]:
    return {
        "group": turn.group,
        "member": turn.member,
        "epoch": turn.epoch,
        "isRenewing": turn.is_renewing,
        "lockMs": turn.lock_ms,
        "forgotten": [_where(one, names) for one in turn.forgotten],
        "acquired": [
            {
                **_where(one.partition, names),
                "first": one.first,
                "last": one.last,
                "deliveryCount": one.delivery_count,
            }
            for one in turn.acquired
        ],
        "acknowledged": [
            {**_where(ack.partition, names), "first": first, "last": last, "type": TYPE_NAMES.get(kind, kind)}
            for ack in turn.acknowledged
            for first, last, kind in ack.runs()
        ],
        "error": error_name(turn.error) if turn.error else None,
        "partitionErrors": [
            {
                **_where(one.partition, names),
                "error": error_name(one.code),
                "isOfAcknowledging": one.is_of_acknowledging,
            }
            for one in turn.errors
        ],
    }


def _where(partition: tuple[bytes, int], names: Names) -> dict[str, Any]:
    return {"topic": names.topic(partition[0]), "partition": partition[1]}
