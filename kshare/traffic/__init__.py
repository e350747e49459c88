"""Analyzes the traffic between clients and brokers: exchanges as text, sessions and locks, a linter, totals.

Pure: callers pass bytes with their times, from a proxy (`kshare trace`) or a capture (`kshare pcap`).
"""

from __future__ import annotations

from kshare.traffic.analyzer import AnalyzedExchange, TrafficAnalyzer
from kshare.traffic.exchange import Connection, Exchange, Frame
from kshare.traffic.exchange_decoder import ExchangeDecoder
from kshare.traffic.filters import Filter
from kshare.traffic.findings import Finding, Severity

__all__ = [
    "AnalyzedExchange",
    "Connection",
    "Exchange",
    "ExchangeDecoder",
    "Filter",
    "Finding",
    "Frame",
    "Severity",
    "TrafficAnalyzer",
]
