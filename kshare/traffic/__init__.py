"""What passes between clients and brokers, understood: exchanges on a line, sessions and locks, a linter, sums.

Pure: bytes and their times come from whoever has them, a proxy (`kshare trace`) or a capture (`kshare pcap`).
"""

from __future__ import annotations

from kshare.traffic.conversation import Conversation
from kshare.traffic.exchange import Connection, Exchange, Frame
from kshare.traffic.filters import Filter
from kshare.traffic.findings import Finding, Level
from kshare.traffic.watch import Sight, Watch

__all__ = ["Connection", "Conversation", "Exchange", "Filter", "Finding", "Frame", "Level", "Sight", "Watch"]
