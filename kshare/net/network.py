"""Opens streams to brokers: over TCP, unless a simulated network takes its place."""

from __future__ import annotations

from contextvars import ContextVar

from kshare.net import tcp
from kshare.net.stream import Stream


class Network:
    """That of the system."""

    async def connect(self, host: str, port: int) -> Stream:
        """Raises OSError."""
        return await tcp.connect(host, port)


network: ContextVar[Network] = ContextVar("kshare network", default=Network())  # noqa: B039  it has no state
"""That of the current task."""
