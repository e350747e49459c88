"""HTTP of one connection, with bounds for how a body is sent: each part of it costs time, however little is in it."""

from __future__ import annotations

import h11

_MOST_HEADER_BYTES = 64 << 10
"""Addresses may contain bytes to name, and a request also names the page from which it comes."""
_MOST_PARTS = 200
_PART = 64
"""Bytes that further parts have on average, at least. Browsers and proxies send thousands."""
_MOST_OVERHEAD = 256 << 10
"""Bytes around the data, besides as many as there are data. What was read ahead is among them."""


class BoundedConnection(h11.Connection):
    """Raises h11.RemoteProtocolError for a body of very small parts, or with more around its data than data."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, _MOST_HEADER_BYTES)
        self._parts = self._data = self._received = 0

    def receive_data(self, data: bytes) -> None:
        self._received += len(data)
        super().receive_data(data)

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._parts = self._data = self._received = 0
        elif isinstance(event, h11.Data):
            self._parts += 1
            self._data += len(event.data)
            if self._parts > _MOST_PARTS + self._data // _PART:
                raise h11.RemoteProtocolError("the parts of the body are too small")
        elif event is h11.NEED_DATA and self.their_state is h11.SEND_BODY and self._is_padded:
            raise h11.RemoteProtocolError("the body has less data than what is around it")
        return event

    @property
    def _is_padded(self) -> bool:
        return self._received > 2 * self._data + _MOST_OVERHEAD
