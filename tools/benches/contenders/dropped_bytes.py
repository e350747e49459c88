"""What receiving bytes and dropping them costs, without Kafka: the lower bound for a member that needs no records.

`way` is `copied` (into one reused buffer) or `truncated` (Linux drops them in the kernel, for plaintext only).
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import time
from collections.abc import Callable

from tools.benches.contenders.program import Given, main, say

_CHUNK = 1 << 18
_DEADLINE_S = 120.0


def copied(line: socket.socket) -> Callable[[], int]:
    buffer = bytearray(_CHUNK)
    return lambda: line.recv_into(buffer)


def truncated(line: socket.socket) -> Callable[[], int]:
    """Python's own `recv` can't drop more bytes than its buffer has."""
    libc = ctypes.CDLL(None, use_errno=True)
    return lambda: int(libc.recv(line.fileno(), None, _CHUNK, socket.MSG_TRUNC))


WAYS = {"copied": copied, "truncated": truncated}


def drop(given: Given) -> None:
    total = int(given["megabytes"]) * 1_000_000
    line, other = _connected()
    if not (sender := os.fork()):
        line.close()
        _send(other, total)
        os._exit(0)
    other.close()
    receive, left = WAYS[given["way"]](line), total
    began, cpu = time.perf_counter(), time.process_time()
    while left > 0 and (received := receive()) > 0:
        left -= received
    spent = time.process_time() - cpu
    os.waitpid(sender, 0)
    if left:
        raise ConnectionError(f"{left} of {total} bytes are missing")
    say(json.dumps({"seconds": time.perf_counter() - began, "cpu": spent}))


def _connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = socket.create_connection(server.getsockname(), _DEADLINE_S)
        other, _ = server.accept()
    line.settimeout(None)
    return line, other


def _send(line: socket.socket, total: int) -> None:
    block = memoryview(bytes(1 << 20))
    while total > 0:
        total -= line.send(block[: min(total, len(block))])


if __name__ == "__main__":
    main(drop)
