"""A listener that accepts no connection: its backlog is full, so the system doesn't respond to further connects."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

from kshare.net.addresses import Address

_PATIENCE_S = 0.3


class Wall:
    """Use as a context manager: `with Wall() as wall`."""

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self._callers: list[socket.socket] = []
        self.address: Address = self._listener.getsockname()
        while self._fits():
            pass
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for caller in (*self._callers, self._listener):
            caller.close()

    @property
    def text(self) -> str:
        return "{}:{}".format(*self.address)

    def _fits(self) -> bool:
        caller = socket.socket()
        caller.settimeout(_PATIENCE_S)
        try:
            caller.connect(self.address)
        except TimeoutError:
            caller.close()
            return False
        self._callers.append(caller)
        return True
