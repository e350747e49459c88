"""What a broker answers, on its way to the client: passed on as it comes, but for what may hold addresses.

Decides how much of an answer is held back, and until when. Most is not; of what a ShareFetch brings, only the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping

from kshare.errors import DecodeError
from kshare.protocol.frames import MAX_FRAME
from kshare.protocol.messages import ApiVersionsResponse, ShareFetchResponse
from kshare.trace.addresses import (
    TAIL,
    Handling,
    decode,
    encode,
    handling,
    has_no_endpoints,
    limit_versions,
    places,
    tail_of,
    tail_of_length,
)
from kshare.trace.heads import Asked

Move = Callable[[str, int], tuple[str, int]]
"""A broker's address → where clients find it here."""

_SIZE, _HEAD = 4, 8
"""The size alone; with the correlation id behind it."""


class AnswerStream:
    """`asked` is what is waited for, by correlation id; what is answered is taken out of it."""

    def __init__(self, asked: MutableMapping[int, Asked], move: Move) -> None:
        self._asked = asked
        self._move = move
        self._head = b""
        self._question: Asked | None = None
        self._handling = Handling.PASS
        self._left = 0
        """Bytes of the frame that have still to come."""
        self._parts: list[bytes | memoryview] = []
        """Of a frame that may have to be read: all of it so far."""
        self._held = b""
        """Its end so far, not passed on yet."""

    def feed(self, chunk: bytes | memoryview) -> Iterator[bytes | memoryview]:
        """What can be passed on. DecodeError if this is no stream of frames."""
        rest = memoryview(chunk)
        while rest:
            if not self._left:
                wanted = _HEAD - len(self._head)
                self._head += bytes(rest[:wanted])
                rest = rest[wanted:]
                if len(self._head) >= _SIZE and (short := self._short_frame()):
                    # Less than a correlation id: a SASL token of old.
                    rest = memoryview(short[1] + bytes(rest))
                    yield short[0]
                    continue
                if len(self._head) < _HEAD:
                    return
                self._begin()
            body, rest = rest[: self._left], rest[self._left :]
            self._left -= len(body)
            yield from self._pass(body)
            if not self._left and (last := self._end()):
                yield last

    def _short_frame(self) -> tuple[bytes, bytes] | None:
        size = int.from_bytes(self._head[:_SIZE], "big", signed=True)
        if not 0 <= size <= MAX_FRAME:
            raise DecodeError("size", 0, f"a frame of {size} bytes announced")
        end = _SIZE + size
        if end > _HEAD or len(self._head) < end:
            return None
        frame, behind = self._head[:end], self._head[end:]
        self._head = b""
        if end == _HEAD:
            self._asked.pop(int.from_bytes(frame[_SIZE:], "big", signed=True), None)
        return frame, behind

    def _begin(self) -> None:
        head, self._head = self._head, b""
        self._left = int.from_bytes(head[:_SIZE], "big", signed=True) - (_HEAD - _SIZE)
        self._question = self._asked.pop(int.from_bytes(head[_SIZE:], "big", signed=True), None)
        question = self._question
        self._handling = handling(question.api_key, question.version) if question else Handling.PASS
        self._parts = [head[_SIZE:]]
        self._held = head

    def _pass(self, body: memoryview) -> list[bytes | memoryview]:
        """What needn't be held back any longer."""
        if self._handling is Handling.PASS:
            pieces: list[bytes | memoryview] = [self._held + bytes(body) if len(body) < TAIL else body]
            if len(body) >= TAIL and self._held:
                pieces.insert(0, self._held)
            self._held = b""
            return pieces
        self._parts.append(body)
        if self._handling is Handling.HOLD:
            return []
        if len(body) < TAIL:
            self._held += bytes(body)
            free = max(0, len(self._held) - TAIL)
            passed, self._held = self._held[:free], self._held[free:]
            return [passed] if passed else []
        passed, self._held = self._held, bytes(body[-TAIL:])
        return [passed, body[:-TAIL]]

    def _end(self) -> bytes:
        parts, self._parts = self._parts, []
        held, self._held = self._held, b""
        if self._handling is Handling.PASS or self._question is None:
            return held
        if self._handling is Handling.HOLD_TAIL:
            if has_no_endpoints(held):
                return held
            if sum(map(len, parts)) + _SIZE > len(held):
                return self._moved_tail(self._question, parts, held)
        frame = self._moved(self._question, memoryview(b"".join(parts)))
        return len(frame).to_bytes(_SIZE, "big") + frame

    def _moved(self, question: Asked, frame: memoryview) -> bytes:
        answer = decode(question.api_key, question.version, frame)
        if answer is None:
            return bytes(frame)
        has_changed = (
            limit_versions(answer) if isinstance(answer, ApiVersionsResponse) else self._move_all(answer)
        )
        return encode(answer, question.version, frame) if has_changed else bytes(frame)

    def _moved_tail(self, question: Asked, parts: list[bytes | memoryview], held: bytes) -> bytes:
        answer = decode(question.api_key, question.version, memoryview(b"".join(parts)))
        if not isinstance(answer, ShareFetchResponse):
            return held
        old = tail_of(answer, question.version)
        if not held.endswith(old) or not self._move_all(answer):
            return held
        return held[: -len(old)] + tail_of_length(answer, question.version, len(old))

    def _move_all(self, answer: object) -> bool:
        found = list(places(answer))
        for place in found:
            place.host, place.port = self._move(place.host, place.port)
        return bool(found)
