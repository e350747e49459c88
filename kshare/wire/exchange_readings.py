"""Dissects the frames of an exchange, with credentials masked."""

from __future__ import annotations

from kshare.dissect import Dissection, DissectionLimit, dissect_request, dissect_response
from kshare.traffic import Exchange
from kshare.wire.internal_records import explain_records
from kshare.wire.masking import mask


def exchange_readings(exchange: Exchange) -> dict[str, Dissection]:
    """The dissected `request` and `response`, if their schemas are known."""
    if exchange.request is None:
        return {}
    found = {"request": request_reading(exchange.request_frame)}
    if exchange.response_frame is not None:
        found["response"] = response_reading(exchange.response_frame, exchange.api_key, exchange.version)
    return found


def request_reading(frame: bytes | memoryview, limit: DissectionLimit | None = None) -> Dissection:
    copy, limit = bytearray(frame), limit or DissectionLimit.usual()
    return _prepared(dissect_request(copy, is_sized=False, limit=limit), copy, limit)


def response_reading(
    frame: bytes | memoryview, api_key: int, version: int, limit: DissectionLimit | None = None
) -> Dissection:
    copy, limit = bytearray(frame), limit or DissectionLimit.usual()
    return _prepared(dissect_response(copy, api_key, version, is_sized=False, limit=limit), copy, limit)


def _prepared(reading: Dissection, copy: bytearray, limit: DissectionLimit) -> Dissection:
    mask(reading, copy)
    explain_records(reading, limit)
    return reading
