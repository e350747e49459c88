"""Network captures: packets out of pcap and pcapng files, TCP streams out of packets, and packets into pcapng files.

Pure, like `kshare.protocol`: bytes are fed in, and it neither opens files nor looks at clocks. It knows TCP and nothing
of Kafka: who is the client of a connection that was joined in the middle is for those to say who can read what it says.
"""

from __future__ import annotations

from .reader import CaptureReader, is_capture
from .segments import UnreadPacketError, segment_of
from .streams import Streams
from .tcp_connection import Closed, MissingBytes, ReceivedBytes, TcpConnection
from .writer import CaptureWriter, WrittenConnection

__all__ = [
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
