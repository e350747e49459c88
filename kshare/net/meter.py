"""Counts what connections do: for metrics that the caller of a pool provides."""

from __future__ import annotations

from typing import Protocol


class NetMeter(Protocol):
    """Is told of connections, requests and bytes. `peer` is the broker's address. Must be quick, and must not raise."""

    def on_connected(self, peer: str) -> None: ...

    def on_disconnected(self, peer: str) -> None: ...

    def on_sent(self, peer: str, size: int) -> None:
        """A request was sent, or queued."""

    def on_received(self, peer: str, size: int) -> None:
        """Bytes were read."""

    def on_response(self, peer: str, seconds: float) -> None:
        """A request got a response."""
