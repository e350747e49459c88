"""A broker's responses: forwarded as they arrive, except those that may contain addresses.

Decides how much of a response is held back, and until when. Most responses aren't held back at all, and ShareFetch
responses only at their end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping

from kshare.errors import DecodeError
from kshare.protocol.frames import MAX_FRAME
from kshare.protocol.messages import ApiVersionsResponse
from kshare.trace.addresses import Handling, address_structs, decode, encode, handling, limit_versions
from kshare.trace.request_heads import RequestHead
from kshare.trace.response_tail import TAIL, encode_in_length, has_no_addresses, rewritten_tail

Move = Callable[[str, int], tuple[str, int]]
"""A broker's address → the proxy's address for it."""

_SIZE, _HEAD = 4, 8
"""Bytes of the size, and of size and correlation id."""


class ResponseStream:
    """`asked` are the pending requests, by correlation id; those with a response are removed."""

    def __init__(self, pending_requests: MutableMapping[int, RequestHead], move: Move) -> None:
        self._pending_requests = pending_requests
        self._move = move
        self._partial_head = b""
        """The beginning of a frame whose head hasn't arrived completely."""
        self._request: RequestHead | None = None
        self._handling = Handling.PASS
        self._missing_bytes = 0
        """How many bytes of the frame haven't arrived yet."""
        self._parts: list[memoryview] = []
        """All that has arrived of a frame that may have to be decoded."""
        self._held = b""
        """The part of it that is held back."""

    @property
    def is_amid(self) -> bool:
        return bool(self._partial_head or self._missing_bytes)

    def feed(self, chunk: bytes | memoryview) -> Iterator[bytes | memoryview]:
        """Returns what can be forwarded. Raises DecodeError if this isn't a stream of frames."""
        rest = memoryview(self._partial_head + bytes(chunk) if self._partial_head else chunk)
        self._partial_head = b""
        while rest:
            if not self._missing_bytes and not self._begin(rest):
                self._partial_head = bytes(rest)
                return
            piece, rest = rest[: self._missing_bytes], rest[self._missing_bytes :]
            self._missing_bytes -= len(piece)
            yield from self._pass(piece)
            if not self._missing_bytes and (last := self._end()):
                yield last

    def _begin(self, data: memoryview) -> bool:
        """Reads a frame's head. Returns False if more bytes are needed."""
        if len(data) < _SIZE:
            return False
        size = int.from_bytes(data[:_SIZE], "big", signed=True)
        if not 0 <= size <= MAX_FRAME:
            raise DecodeError("size", 0, f"the frame size is {size} bytes")
        request = None
        if _SIZE + size >= _HEAD:  # otherwise it is an old SASL token
            if len(data) < _HEAD:
                return False
            request = self._pending_requests.pop(int.from_bytes(data[_SIZE:_HEAD], "big", signed=True), None)
        self._request = request
        self._handling = handling(request.api_key, request.version) if request else Handling.PASS
        self._missing_bytes = _SIZE + size
        return True

    def _pass(self, piece: memoryview) -> list[bytes | memoryview]:
        """Returns the parts that needn't be held back."""
        if self._handling is Handling.PASS:
            return [piece]
        self._parts.append(piece)
        if self._handling is Handling.HOLD:
            return []
        free = len(piece) - max(0, TAIL - self._missing_bytes)
        if free > 0:
            passed, self._held = self._held, bytes(piece[free:])
            return [passed, piece[:free]]
        held = self._held + bytes(piece)
        free = max(0, len(held) - (TAIL - self._missing_bytes))
        self._held = held[free:]
        return [held[:free]]

    def _end(self) -> bytes:
        parts, self._parts = self._parts, []
        held, self._held = self._held, b""
        if self._handling is Handling.PASS or self._request is None:
            return b""
        if self._handling is Handling.HOLD_TAIL:
            if has_no_addresses(held, self._request.version):
                return held
            if sum(map(len, parts)) > len(held):
                return self._moved_tail(self._request, memoryview(b"".join(parts))[_SIZE:], held)
        frame = self._moved(self._request, memoryview(b"".join(parts))[_SIZE:])
        return len(frame).to_bytes(_SIZE, "big") + frame

    def _moved(self, request: RequestHead, frame: memoryview) -> bytes:
        response = decode(request.api_key, request.version, frame)
        if response is None:
            return bytes(frame)
        has_changed = (
            limit_versions(response)
            if isinstance(response, ApiVersionsResponse)
            else self._move_all(response)
        )
        return encode(response, request.version, frame) if has_changed else bytes(frame)

    def _moved_tail(self, request: RequestHead, frame: memoryview, held: bytes) -> bytes:
        """`held` with replaced addresses, if it contains any; everything before it has been forwarded already."""
        response = decode(request.api_key, request.version, frame)
        if response is None:
            return held
        old = encode(response, request.version, frame)
        if not self._move_all(response):
            return held
        new = encode_in_length(response, request.version, frame, len(old))
        before = max(0, len(held) - len(frame))  # it may begin within the frame's size
        moved = new and rewritten_tail(held[before:], old, new)
        return held[:before] + moved if moved else held

    def _move_all(self, response: object) -> bool:
        found = list(address_structs(response))
        for place in found:
            place.host, place.port = self._move(place.host, place.port)
        return bool(found)
