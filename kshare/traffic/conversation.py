"""Both directions of one connection: bytes become frames, frames become requests with their answers.

Decides which answer belongs to which request, and what has none. Knows no meaning of any request but two: a Produce
with acks=0 isn't answered, and a SaslHandshake in version 0 is followed by tokens without headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kshare.errors import KshareError
from kshare.protocol.envelopes import decode_request, decode_response, is_version_refused, known_request
from kshare.protocol.message import Message, Request
from kshare.protocol.messages.produce_request import ProduceRequest
from kshare.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kshare.traffic.cutting import Cutter
from kshare.traffic.exchange import Connection, Exchange, Frame
from kshare.traffic.heads import is_familiar, read_head

_API_VERSIONS = 18
_CORRELATION_BYTES = 4
_MOST_STRAYS = 100


class Conversation:
    """`is_joined_late`: the first bytes may lie in the middle of frames. `on_frame` is told of each as it comes."""

    def __init__(
        self,
        connection: Connection,
        *,
        is_joined_late: bool = False,
        on_frame: Callable[[Frame], None] | None = None,
    ) -> None:
        self.connection = connection
        self.is_kafka: bool | None = None
        """Whether what the client says first is a request; None as long as nothing is known."""
        self._strays: list[Exchange] = []
        """What answers nothing that was asked. Perhaps the question fell into a hole that shows later."""
        self._on_frame = on_frame
        self._asked = Cutter(self._looks_like_request, is_searching=is_joined_late)
        self._answered = Cutter(self._looks_like_answer, is_searching=is_joined_late)
        self._has_holes = is_joined_late
        self._pending: dict[int, Exchange] = {}
        self._tokens: list[Exchange] = []
        self._takes_tokens = False

    def client_sends(self, data: bytes | memoryview, time: float) -> list[Exchange]:
        return [done for frame in self._asked.feed(data) for done in self._request(frame, time)]

    def server_sends(self, data: bytes | memoryview, time: float) -> list[Exchange]:
        return [done for frame in self._answered.feed(data) for done in self._answer(frame, time)]

    def client_lost(self, time: float) -> None:
        """Bytes of the client are missing here."""
        self._has_holes = True
        self._asked.lose()

    def server_lost(self, time: float) -> None:
        """Bytes of the server are missing here."""
        self._has_holes = True
        self._answered.lose()

    def end(self, time: float) -> list[Exchange]:
        """The connection is closed: what was never answered, and answers that nobody asked for."""
        strays = [] if self._has_holes else self._strays
        left = [*self._tokens, *self._pending.values(), *strays]
        self._tokens, self._pending, self._strays = [], {}, []
        return left

    # --- requests

    def _request(self, frame: memoryview, time: float) -> Iterator[Exchange]:
        head = read_head(frame)
        if head is None or (self._takes_tokens and not is_familiar(head)):
            yield from self._no_request(frame, time)
            return
        self.is_kafka = True
        self._takes_tokens = False
        exchange = Exchange(self.connection, *head, time, frame)
        self._tell(frame, time, exchange, is_request=True)
        _decode_request(exchange)
        if isinstance(exchange.request, ProduceRequest) and exchange.request.acks == 0:
            exchange.expects_answer = False
            yield exchange
            return
        earlier = self._pending.pop(exchange.correlation_id, None)
        if earlier is not None:
            yield earlier
        self._pending[exchange.correlation_id] = exchange

    def _no_request(self, frame: memoryview, time: float) -> Iterator[Exchange]:
        exchange = Exchange(self.connection, -1, 0, 0, None, time, frame, is_token=self._takes_tokens)
        self._tell(frame, time, exchange, is_request=True)
        if self._takes_tokens:
            self._tokens.append(exchange)
            return
        if self.is_kafka is None:
            self.is_kafka = False
        exchange.problem = f"{len(frame)} bytes that are no request"
        exchange.expects_answer = False
        self._asked.lose()
        self._has_holes = True
        yield exchange

    # --- answers

    def _answer(self, frame: memoryview, time: float) -> Iterator[Exchange]:
        if self._tokens:
            exchange = self._tokens.pop(0)
            exchange.answered_at, exchange.response_frame = time, frame
            self._tell(frame, time, exchange, is_request=False)
            yield exchange
            return
        correlation_id = int.from_bytes(frame[:_CORRELATION_BYTES], "big", signed=True)
        found = self._pending.get(correlation_id) if len(frame) >= _CORRELATION_BYTES else None
        if found is None:
            self._tell(frame, time, None, is_request=False)
            if not self._has_holes and len(self._strays) < _MOST_STRAYS:
                self._strays.append(self._stray(frame, time))
            return
        if self._has_holes:
            yield from self._overtaken(correlation_id)
        del self._pending[correlation_id]
        found.answered_at, found.response_frame = time, frame
        self._tell(frame, time, found, is_request=False)
        _decode_answer(found)
        response = found.response
        if isinstance(response, SaslHandshakeResponse) and found.version == 0 and not response.error_code:
            self._takes_tokens = True
        yield found

    def _stray(self, frame: memoryview, time: float) -> Exchange:
        problem = f"an answer of {len(frame)} bytes to nothing that was asked"
        nothing = memoryview(b"")
        return Exchange(self.connection, -1, 0, 0, None, time, nothing, None, time, frame, None, problem)

    def _overtaken(self, correlation_id: int) -> Iterator[Exchange]:
        """Brokers answer in the order of the questions: the answers to older ones fell into the hole."""
        for number in list(self._pending):
            if number == correlation_id:
                return
            exchange = self._pending.pop(number)
            exchange.is_unheard = True
            yield exchange

    # --- finding the way back

    def _looks_like_request(self, begin: memoryview, is_whole: bool) -> bool:
        head = read_head(begin)
        if head is None or not is_familiar(head):
            return False
        probe = Exchange(self.connection, *head, 0.0, begin)
        if is_whole:
            _decode_request(probe)
        return not probe.problem

    def _looks_like_answer(self, begin: memoryview, is_whole: bool) -> bool:
        asked = self._pending.get(int.from_bytes(begin[:_CORRELATION_BYTES], "big", signed=True))
        if asked is None or not is_whole:
            return asked is not None
        probe = replace(asked, response_frame=begin)
        _decode_answer(probe)
        return not probe.problem

    def _tell(self, data: memoryview, time: float, exchange: Exchange | None, *, is_request: bool) -> None:
        if self._on_frame is None:
            return
        key, version, is_token = (
            (exchange.api_key, exchange.version, exchange.is_token) if exchange else (-1, 0, False)
        )
        self._on_frame(Frame(self.connection, is_request, time, data, key, version, is_token))


def _decode_request(exchange: Exchange) -> None:
    exchange.problem = _unknown(exchange)
    if exchange.problem:
        return
    try:
        exchange.request = decode_request(exchange.request_frame)[1]
    except KshareError as error:
        exchange.problem = f"request: {error}"


def _decode_answer(exchange: Exchange) -> None:
    cls = known_request(exchange.api_key)
    if exchange.problem or cls is None or exchange.response_frame is None:
        return
    assert issubclass(cls, Request)
    frame, version = exchange.response_frame, exchange.version
    if exchange.api_key == _API_VERSIONS and is_version_refused(frame):
        version = 0
    try:
        exchange.response = _response(cls, version, frame)
    except KshareError as error:
        exchange.problem = f"answer: {error}"


def _response(cls: type[Request[Message]], version: int, frame: memoryview) -> Message:
    return decode_response(cls.RESPONSE, version, frame)[1]


def _unknown(exchange: Exchange) -> str:
    cls = known_request(exchange.api_key)
    if cls is None:
        return f"API {exchange.api_key} isn't known here"
    first, last = cls.VERSIONS
    if not first <= exchange.version <= last:
        return f"version {exchange.version} isn't known here: {first} to {last} are"
    return ""
