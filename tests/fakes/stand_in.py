"""A process that responds like a broker: enough for the broker watch, and started at once.

The process is `python -m tests.fakes.stand_in PORT`. It sends an empty response to every request, and on SIGQUIT
prints a thread dump with the headings that a JVM writes.
"""

from __future__ import annotations

import os
import signal
import socket
import socketserver
import struct
import sys
import tempfile
import time
from pathlib import Path

from tools.kafka import running
from tools.kafka.listeners import HOST
from tools.kafka.ports import free_ports
from tools.kafka.process import Process

_DUMP = b"Full thread dump of the stand-in\nFound one Java-level deadlock:\nJNI global refs: 0\n"
_READY_S = 30.0


class StandIn:
    """Both the node and the cluster."""

    def __init__(self, release: str) -> None:
        self.release, self.id = release, 1
        self.folder = Path(tempfile.mkdtemp(prefix="kshare-stand-in-"))
        self.log = self.folder / "broker.log"
        self._port = free_ports(1)[0]
        self.process = Process([sys.executable, "-m", __name__, str(self._port)], self.log)
        self.is_expected = False

    @property
    def nodes(self) -> list[StandIn]:
        return [self]

    @property
    def is_running(self) -> bool:
        return not self.process.has_ended

    def address(self) -> tuple[str, int]:
        return HOST, self._port

    def ask_for_threads(self) -> None:
        self.process.ask_for_threads()

    def __enter__(self) -> StandIn:
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                socket.create_connection(self.address(), timeout=_READY_S).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self.is_expected = True
        running.clusters.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        running.clusters.remove(self)
        self.process.kill()

    def freeze(self) -> None:
        """Stop the process without the rig knowing."""
        os.kill(self.process.pid, signal.SIGSTOP)


class _Conversation(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while size := self.rfile.read(4):
            request = self.rfile.read(struct.unpack(">i", size)[0])
            self.wfile.write(struct.pack(">i", 8) + request[4:8] + bytes(4))


def _serve(port: int) -> None:
    signal.signal(signal.SIGQUIT, lambda *_: os.write(1, _DUMP) and None)
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    with socketserver.ThreadingTCPServer((HOST, port), _Conversation) as server:
        server.serve_forever()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
