"""A minimal proxy in Python: two threads per connection, which forward what they receive without decoding it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from tools.benches.contenders.program import Given, end_of_input, main, say
from tools.kafka.listeners import HOST

_MOST = 1024 * 1024


def forward(given: Given) -> None:
    ended = end_of_input()
    server = socket.create_server((HOST, int(given["listen"])))
    threading.Thread(target=_accept, args=(server, int(given["to"])), daemon=True).start()
    say("listening")
    ended.wait()


def _accept(server: socket.socket, port: int) -> None:
    while True:
        client, _ = server.accept()
        broker = socket.create_connection((HOST, port))
        for source, sink in ((client, broker), (broker, client)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_pass, args=(source, sink), daemon=True).start()


def _pass(source: socket.socket, sink: socket.socket) -> None:
    room = memoryview(bytearray(_MOST))
    with suppress(OSError):
        while size := source.recv_into(room):
            sink.sendall(room[:size])
        sink.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main(forward)
