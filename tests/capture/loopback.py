"""Captures packets of this machine's loopback interface with libpcap, the library of tcpdump.

Run as a module, it prints a note if this user may not capture, so that skipped tests are noticed.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from threading import Event, Thread

import cypcap

_WHOLE_PACKETS = 262_144
_BUFFER = 128 * 1024 * 1024
"""A place in it is as large as the largest packet, and on a busy machine there are more packets."""
_TICK = 0.01
_AGAIN = 0.2
_DEADLINE = 60.0


@cache
def may_capture() -> bool:
    try:
        with cypcap.create("lo") as capture:
            capture.activate()
    except cypcap.Error:
        return False
    return True


@contextmanager
def captured(path: Path, port: int, snaplen: int = _WHOLE_PACKETS) -> Iterator[None]:
    """Capture all packets from and to `port` into the file. The kernel buffers them until the end."""
    with cypcap.create("lo") as capture, socket.socket(type=socket.SOCK_DGRAM) as marker:
        capture.set_snaplen(snaplen)
        capture.set_buffer_size(_BUFFER)
        capture.set_immediate_mode(True)
        capture.set_timeout(_TICK)
        capture.activate()
        marker.bind(("127.0.0.1", 0))
        capture.setfilter(f"tcp port {port} or udp port {marker.getsockname()[1]}")
        yield
        is_written = Event()

        def mark() -> None:
            """Again and again: the first one is lost if the buffer is full, and reading would wait for ever."""
            while True:
                marker.sendto(b"enough", marker.getsockname())
                if is_written.wait(_AGAIN):
                    return

        marking = Thread(target=mark, daemon=True)
        marking.start()
        try:
            _write(capture, path)
        finally:
            is_written.set()
            marking.join()


def _write(capture: cypcap.Pcap, path: Path) -> None:
    deadline = time.monotonic() + _DEADLINE
    with closing(capture.dump_open(str(path))) as file:
        for header, data in capture:
            if data is not None and data.endswith(b"enough"):
                break
            if data is not None:
                file.dump(header, data)
            assert time.monotonic() < deadline, "libpcap never showed the last packet"
    assert not capture.stats().drop, "the kernel's buffer was too small"


if __name__ == "__main__" and not may_capture():
    sys.stdout.write(
        "packets can't be captured by this user (root or CAP_NET_RAW can): such tests are left out\n"
    )
