"""What passes between clients and brokers, understood: exchanges on a line, sessions and locks, a linter, sums.

Pure: bytes and their times come from whoever has them, a proxy (`kshare trace`) or a capture (`kshare pcap`).
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
