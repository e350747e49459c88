"""Network captures: packets out of pcap and pcapng files, TCP streams out of packets, and packets into pcapng files.

Pure, like `kshare.protocol`: bytes are fed in, and it neither opens files nor reads clocks. It knows TCP and not Kafka:
if a capture begins in the middle of a connection, callers have to find out which side is the client.
"""

from __future__ import annotations

from .packet import CaptureError
from .reader import CaptureReader, is_capture
from .segments import UnreadPacketError, segment_of
from .streams import Streams
from .tcp_connection import Closed, MissingBytes, ReceivedBytes, TcpConnection
from .writer import CaptureWriter, WrittenConnection

__all__ = [
    "CaptureError",
    "CaptureReader",
    "CaptureWriter",
    "Closed",
    "MissingBytes",
    "ReceivedBytes",
    "Streams",
    "TcpConnection",
    "UnreadPacketError",
    "WrittenConnection",
    "is_capture",
    "segment_of",
]
