"""Decodes both directions of one connection: bytes to frames, frames to requests with their responses.

Decides which response belongs to which request, and which requests have none. Only two requests are special: a Produce
with acks=0 has no response, and a SaslHandshake in version 0 is followed by tokens without headers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kshare.errors import KshareError
from kshare.protocol.envelopes import is_version_refused, known_request
from kshare.protocol.frames import MAX_FRAME, request_header_version, response_header_version
from kshare.protocol.message import Request
from kshare.protocol.messages.produce_request import ProduceRequest
from kshare.protocol.messages.request_header import RequestHeader
from kshare.protocol.messages.response_header import ResponseHeader
from kshare.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kshare.traffic.exchange import Connection, Exchange, Frame
from kshare.traffic.request_heads import Head, is_familiar, read_head
from kshare.traffic.resync import ResyncingSplitter

_API_VERSIONS = 18
_CORRELATION_BYTES = 4
_MAX_UNSOLICITED = 100
# Most headers end with a byte for "no tags". Then they needn't be decoded as messages: all their fields are known.
_TAGGED_REQUEST, _TAGGED_RESPONSE = 2, 1
_NO_TAGS = b"\0"


class ExchangeDecoder:
    """`is_joined_late`: the first bytes may be in the middle of a frame. `on_frame` is called for each frame.

    Frames larger than `max_frame` count as damage.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        is_joined_late: bool = False,
        on_frame: Callable[[Frame], None] | None = None,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self.connection = connection
        self.is_kafka: bool | None = None
        """Whether the client's first bytes are a Kafka request; None if nothing is known yet."""
        self._unmatched: list[Exchange] = []
        """Responses without a request. The request may be in a gap of the capture that is noticed later."""
        self._on_frame = on_frame
        self._request_splitter, self._response_splitter = (
            ResyncingSplitter(looks_right, is_searching=is_joined_late, max_frame=max_frame)
            for looks_right in (self._looks_like_request, self._looks_like_response)
        )
        self._has_holes = is_joined_late
        self._pending: dict[int, Exchange] = {}
        self._tokens: list[Exchange] = []
        self._takes_tokens = False

    def client_sends(self, data: bytes | memoryview, time: float) -> list[Exchange]:
        done: list[Exchange] = []
        for frame in self._request_splitter.feed(data):
            self._request(frame, time, done)
        return done

    def server_sends(self, data: bytes | memoryview, time: float) -> list[Exchange]:
        done: list[Exchange] = []
        for frame in self._response_splitter.feed(data):
            self._response(frame, time, done)
        return done

    def client_lost(self, time: float) -> None:
        """Bytes from the client are missing here."""
        self._has_holes = True
        self._request_splitter.lose()

    def server_lost(self, time: float) -> None:
        """Bytes from the server are missing here."""
        self._has_holes = True
        self._response_splitter.lose()

    def end(self, time: float) -> list[Exchange]:
        """The connection is closed: returns requests without a response, and responses without a request."""
        unmatched = [] if self._has_holes else self._unmatched
        unfinished = [*self._tokens, *self._pending.values(), *unmatched]
        self._tokens, self._pending, self._unmatched = [], {}, []
        return unfinished

    # --- requests

    def _request(self, frame: memoryview, time: float, done: list[Exchange]) -> None:
        head = read_head(frame)
        if head is None or (self._takes_tokens and not is_familiar(head)):
            self._no_request(frame, time, done)
            return
        self.is_kafka = True
        self._takes_tokens = False
        exchange = self._new_exchange(head, frame, time)
        self._report_frame(frame, time, exchange, is_request=True)
        _decode_request(exchange, head)
        if isinstance(exchange.request, ProduceRequest) and exchange.request.acks == 0:
            exchange.expects_response = False
            done.append(exchange)
            return
        earlier = self._pending.pop(exchange.correlation_id, None)
        if earlier is not None:
            done.append(earlier)
        self._pending[exchange.correlation_id] = exchange

    def _new_exchange(self, head: Head, frame: memoryview, time: float) -> Exchange:
        key, version, correlation_id, client_id, _ = head
        return Exchange(self.connection, key, version, correlation_id, client_id, time, frame)

    def _no_request(self, frame: memoryview, time: float, done: list[Exchange]) -> None:
        exchange = Exchange(self.connection, -1, 0, 0, None, time, frame, is_token=self._takes_tokens)
        self._report_frame(frame, time, exchange, is_request=True)
        if self._takes_tokens:
            self._tokens.append(exchange)
            return
        if self.is_kafka is None:
            self.is_kafka = False
        exchange.problem = f"{len(frame)} bytes that aren't a Kafka request"
        exchange.expects_response = False
        self._request_splitter.lose()
        self._has_holes = True
        done.append(exchange)

    # --- responses

    def _response(self, frame: memoryview, time: float, done: list[Exchange]) -> None:
        if self._tokens:
            exchange = self._tokens.pop(0)
            exchange.responded_at, exchange.response_frame = time, frame
            self._report_frame(frame, time, exchange, is_request=False)
            done.append(exchange)
            return
        correlation_id = int.from_bytes(frame[:_CORRELATION_BYTES], "big", signed=True)
        found = self._pending.get(correlation_id) if len(frame) >= _CORRELATION_BYTES else None
        if found is None:
            self._report_frame(frame, time, None, is_request=False)
            if not self._has_holes and len(self._unmatched) < _MAX_UNSOLICITED:
                self._unmatched.append(self._unsolicited(frame, time))
            return
        if self._has_holes:
            self._overtaken(correlation_id, done)
        del self._pending[correlation_id]
        found.responded_at, found.response_frame = time, frame
        self._report_frame(frame, time, found, is_request=False)
        _decode_response(found)
        response = found.response
        if isinstance(response, SaslHandshakeResponse) and found.version == 0 and not response.error_code:
            self._takes_tokens = True
        done.append(found)

    def _unsolicited(self, frame: memoryview, time: float) -> Exchange:
        problem = f"a response of {len(frame)} bytes without a request"
        nothing = memoryview(b"")
        return Exchange(self.connection, -1, 0, 0, None, time, nothing, None, time, frame, None, problem)

    def _overtaken(self, correlation_id: int, done: list[Exchange]) -> None:
        """Brokers respond in the order of the requests: responses to earlier ones are missing in the capture."""
        for number in list(self._pending):
            if number == correlation_id:
                return
            exchange = self._pending.pop(number)
            exchange.is_unheard = True
            done.append(exchange)

    # --- finding the way back

    def _looks_like_request(self, begin: memoryview, is_whole: bool) -> bool:
        head = read_head(begin)
        if head is None or not is_familiar(head):
            return False
        probe = self._new_exchange(head, begin, 0.0)
        if is_whole:
            _decode_request(probe, head)
        return not probe.problem and not probe.request_surplus

    def _looks_like_response(self, head: memoryview, is_whole: bool) -> bool:
        exchange = self._pending.get(int.from_bytes(head[:_CORRELATION_BYTES], "big", signed=True))
        if exchange is None or not is_whole:
            return exchange is not None
        probe = replace(exchange, response_frame=head)
        _decode_response(probe)
        return not probe.problem and not probe.response_surplus

    def _report_frame(
        self, data: memoryview, time: float, exchange: Exchange | None, *, is_request: bool
    ) -> None:
        if self._on_frame is None:
            return
        key, version, is_token = (
            (exchange.api_key, exchange.version, exchange.is_token) if exchange else (-1, 0, False)
        )
        self._on_frame(Frame(self.connection, is_request, time, data, key, version, is_token))


def _decode_request(exchange: Exchange, head: Head) -> None:
    cls = known_request(exchange.api_key)
    if cls is None:
        exchange.problem = f"API {exchange.api_key} is unknown to kshare"
        return
    first, last = cls.VERSIONS
    if not first <= exchange.version <= last:
        exchange.problem = f"version {exchange.version} is unknown to kshare: {first} to {last} are supported"
        return
    frame, version = exchange.request_frame, exchange.version
    header = request_header_version(exchange.api_key, version, cls.is_flexible(version))
    try:
        if header == _TAGGED_REQUEST and frame[head.end : head.end + 1] == _NO_TAGS:
            begin = head.end + 1
        else:
            begin = RequestHeader.decode_prefix(frame, header)[1]
        exchange.request, end = cls.decode_prefix(frame, version, begin)
        exchange.request_surplus = len(frame) - end
    except KshareError as error:
        exchange.problem = f"request: {error}"


def _decode_response(exchange: Exchange) -> None:
    request, frame, version = exchange.request, exchange.response_frame, exchange.version
    if exchange.problem or request is None or frame is None:
        return
    assert isinstance(request, Request)
    cls = request.RESPONSE
    if exchange.api_key == _API_VERSIONS and is_version_refused(frame):
        version = 0
    header = response_header_version(exchange.api_key, cls.is_flexible(version))
    try:
        if header == _TAGGED_RESPONSE and frame[_CORRELATION_BYTES : _CORRELATION_BYTES + 1] == _NO_TAGS:
            begin = _CORRELATION_BYTES + 1
        else:
            begin = ResponseHeader.decode_prefix(frame, header)[1]
        exchange.response, end = cls.decode_prefix(frame, version, begin)
        exchange.response_surplus = len(frame) - end
    except KshareError as error:
        exchange.problem = f"response: {error}"
