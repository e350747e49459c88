"""What connections need of a stream of bytes. TCP is one; a simulated network has others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from anyio.abc import AsyncResource


class Stream(AsyncResource):
    """Bytes in both directions, in order. They may end anywhere."""

    @abstractmethod
    def receive_now(self, buffer: memoryview) -> int | None:
        """Returns how many bytes were written into `buffer`; None if there are none for now. May raise EndOfStream."""

    @abstractmethod
    def set_read_threshold(self, count: int) -> None:
        """The stream may stay unreadable until `count` bytes have arrived, which must be certain to arrive."""

    @abstractmethod
    def send_now(self, item: bytes | memoryview) -> memoryview:
        """Sends what the stream accepts now, and returns the rest. Raises OSError if it is broken."""

    @abstractmethod
    async def send(self, item: bytes | memoryview) -> None:
        """Sends everything."""

    @abstractmethod
    async def call_when_readable(self, on_ready: Callable[[], None]) -> None:
        """Runs until `on_ready` raises or this is cancelled. Nothing else may wait for the stream in that time."""
