"""Reads what passes over one connection, and lets something happen to responses."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from kshare.protocol.envelopes import decode_request, decode_response, encode_response
from kshare.protocol.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kshare.surroundings import monotonic
from tests.integration.consumer_storm.fault_book import Acquired, FaultBook

_READ: dict[int, Any] = {
    ShareFetchRequest.API_KEY: ShareFetchResponse,
    ShareAcknowledgeRequest.API_KEY: ShareAcknowledgeResponse,
}


_KINDS = "gar!R"
"""For gap, accept, release, reject, renew."""


class Part(NamedTuple):
    """Bytes of responses to send."""

    data: bytes
    lost: Callable[[], None]
    """Call it if the client doesn't get them."""
    later_s: float = 0.0
    is_cut_after: bool = False


@dataclass
class Asked:
    key: int
    version: int
    at: float
    request: Any = None


class Tap:
    """Lets everything pass. Subclasses choose APIs: their requests are decoded, and their responses may be changed."""

    def __init__(self) -> None:
        self._asked: dict[int, Asked] = {}
        self._up = self._down = b""

    def is_read(self, key: int) -> bool:
        """Whether a subclass has chosen this API."""
        return False

    def answered(self, asked: Asked, frame: bytes, *, is_gone: bool) -> Iterator[Part]:
        """What is sent instead of this response. `is_gone`: nobody waits for it any more."""
        yield Part(frame, _nothing)

    def unanswered(self, asked: Asked) -> None:
        """The broker won't respond."""

    def on_request_bytes(self, data: bytes) -> None:
        """The broker has read these."""
        self._up += data
        for frame in self._frames("_up"):
            key, version, number = struct.unpack_from(">hhi", frame, 4)
            asked = self._asked[number] = Asked(key, version, monotonic())
            if self.is_read(key):
                asked.request = decode_request(frame[4:])[1]

    def responses_in(self, data: bytes, *, is_gone: bool) -> Iterator[Part]:
        """The broker sends these: whole responses."""
        self._down += data
        for frame in self._frames("_down"):
            asked = self._asked.pop(int.from_bytes(frame[4:8], "big"), None)
            if asked is None or asked.request is None:
                yield Part(frame, _nothing)
            else:
                yield from self.answered(asked, frame, is_gone=is_gone)

    def end(self) -> None:
        """The broker sends nothing more."""
        for one in self._asked.values():
            if one.request is not None:
                self.unanswered(one)
        self._asked.clear()

    def _frames(self, name: str) -> Iterator[bytes]:
        data: bytes = getattr(self, name)
        while len(data) >= 4 and len(data) >= 4 + (size := int.from_bytes(data[:4], "big")):
            yield data[: 4 + size]
            data = data[4 + size :]
        setattr(self, name, data)


class ShareTap(Tap):
    """Notes what is acquired and acknowledged, and applies the faults that the fault book chooses."""

    def __init__(self, book: FaultBook, note: Callable[[str], None]) -> None:
        """`note` is called with what a person may want to read."""
        super().__init__()
        self._book = book
        self._note = note

    def is_read(self, key: int) -> bool:
        return key in _READ

    def unanswered(self, asked: Asked) -> None:
        self._book.note_acks(asked.request, asked.at, None)

    def answered(self, asked: Asked, frame: bytes, *, is_gone: bool) -> Iterator[Part]:
        book = self._book
        answer = decode_response(_READ[asked.key], asked.version, frame[4:])[1]
        book.note_acks(asked.request, asked.at, answer)
        fault = "gone" if is_gone else book.choose(answer)
        acquired = book.note_acquired(asked.request, answer, fault)
        if fault is not None:
            book.done[fault] += 1
        self._tell(asked.request, answer, acquired, fault)

        def lost() -> None:
            _mark(acquired)

        if fault == "corrupt batch":
            book.spoil(answer)
            frame = bytes(encode_response(answer, asked.version, int.from_bytes(frame[4:8], "big")))
        half = frame[4 : len(frame) // 2]
        match fault:
            case "undecodable response":
                yield Part(len(half).to_bytes(4, "big") + half, lost)
            case "cut response":
                yield Part(frame[: len(frame) // 2], lost, is_cut_after=True)
            case "lost response":
                yield Part(b"", lost, is_cut_after=True)
            case "late response":
                yield Part(frame, lost, later_s=book.late_s())
            case _:
                yield Part(frame, lost)

    def _tell(self, request: Any, answer: Any, acquired: list[Acquired], fault: str | None) -> None:
        for topic in request.topics:
            for row in topic.partitions:
                for one in row.acknowledgement_batches:
                    where = f"{row.partition_index}:{one.first_offset}-{one.last_offset}"
                    kinds = "".join(_KINDS[kind] for kind in one.acknowledge_types)
                    self._note(f"{request.member_id} acknowledges {where} {kinds}")
        for got in acquired:
            where = f"{got.partition}:{got.first}-{got.last}"
            self._note(f"{request.member_id} gets {where}, delivery {got.delivery}")
        if answer.error_code or fault:
            self._note(
                f"{request.member_id}: {type(answer).__name__} {answer.error_code or ''} {fault or ''}"
            )


_WRITING = {
    one.API_KEY for one in (ProduceRequest, InitProducerIdRequest, AddPartitionsToTxnRequest, EndTxnRequest)
}


class WriteTap(Tap):
    """Loses, cuts and delays responses to producers. `rate` is the share of them."""

    def __init__(self, random: Random, rate: Callable[[], float], done: Callable[[str], None]) -> None:
        super().__init__()
        self._random = random
        self._rate = rate
        self._done = done

    def is_read(self, key: int) -> bool:
        return key in _WRITING

    def answered(self, asked: Asked, frame: bytes, *, is_gone: bool) -> Iterator[Part]:
        if is_gone or self._random.random() >= self._rate():
            yield Part(frame, _nothing)
            return
        fault = self._random.choice(["lost", "cut", "late"])
        self._done(f"{fault} response to {type(asked.request).__name__}")
        match fault:
            case "lost":
                yield Part(b"", _nothing, is_cut_after=True)
            case "cut":
                yield Part(frame[: self._random.randrange(len(frame))], _nothing, is_cut_after=True)
            case _:
                yield Part(frame, _nothing, later_s=self._random.choice([0.3, 2.0, 12.0]))


def _mark(acquired: list[Acquired]) -> None:
    """Their client can't know of them."""
    for one in acquired:
        if one.fault in (None, "late response", "corrupt batch"):
            one.fault = "gone"


def _nothing() -> None:
    pass
