"""Reads what passes over one connection, and lets something happen to responses."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from random import Random
from typing import Any, NamedTuple

from kshare.protocol.acknowledge_types import AcknowledgeType
from kshare.protocol.api_keys import API_NAMES
from kshare.protocol.envelopes import decode_request, decode_response, encode_response
from kshare.protocol.error_codes import error_name
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
from tests.integration.consumer_storm.fault_book import UNKNOWABLE, Acquired, FaultBook, mark_lost
from tests.integration.consumer_storm.judging import RELEASE, RENEW
from tests.simulation.bounds import Traffic

_READ: dict[int, Any] = {
    ShareFetchRequest.API_KEY: ShareFetchResponse,
    ShareAcknowledgeRequest.API_KEY: ShareAcknowledgeResponse,
}


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
        self._owner = ""
        self._traffic = Traffic()

    def begin(self, owner: str, traffic: Traffic) -> None:
        """Whose connection it is, and who counts requests that bring nothing."""
        self._owner, self._traffic = owner, traffic

    def on_request(self, asked: Asked) -> None:
        """A request of a chosen API has reached the broker."""

    def is_idle(self, asked: Asked) -> bool:
        """Whether the request brings nothing, whatever the response is."""
        return True

    def note_idle(self, asked: Asked) -> None:
        """The request has brought nothing."""
        self._traffic.note(self._owner, asked.at, API_NAMES.get(asked.key, str(asked.key)))

    def is_read(self, key: int) -> bool:
        """Whether a subclass has chosen this API."""
        return False

    def responded(self, asked: Asked, frame: bytes, *, is_gone: bool) -> Iterator[Part]:
        """What is sent instead of this response. `is_gone`: nobody waits for it any more."""
        yield Part(frame, _nothing)

    def without_response(self, asked: Asked) -> None:
        """The broker won't respond."""

    def on_request_bytes(self, data: bytes) -> None:
        """The broker has read these."""
        self._up += data
        for frame in self._frames("_up"):
            key, version, number = struct.unpack_from(">hhi", frame, 4)
            asked = self._asked[number] = Asked(key, version, monotonic())
            if self.is_read(key):
                asked.request = decode_request(frame[4:])[1]
                self.on_request(asked)
            if self.is_idle(asked):
                self.note_idle(asked)

    def responses_in(self, data: bytes, *, is_gone: bool) -> Iterator[Part]:
        """The broker sends these: whole responses."""
        self._down += data
        for frame in self._frames("_down"):
            asked = self._asked.pop(int.from_bytes(frame[4:8], "big"), None)
            if asked is None or asked.request is None:
                yield Part(frame, _nothing)
            else:
                yield from self.responded(asked, frame, is_gone=is_gone)

    def end(self) -> None:
        """The broker sends nothing more."""
        for asked in self._asked.values():
            if asked.request is not None:
                self.without_response(asked)
        self._asked.clear()

    def _frames(self, name: str) -> Iterator[bytes]:
        data: bytes = getattr(self, name)
        while len(data) >= 4 and len(data) >= 4 + (size := int.from_bytes(data[:4], "big")):
            yield data[: 4 + size]
            data = data[4 + size :]
        setattr(self, name, data)


class ShareTap(Tap):
    """Notes what is acquired and acknowledged, and applies the faults that the fault book chooses."""

    def __init__(self, book: FaultBook, note: Callable[[str, str], None]) -> None:
        """`note` is called with what a person may want to read, and the member that it is about."""
        super().__init__()
        self._book = book
        self._note = note
        self._has_session = False
        """Whether a session was opened through this connection."""

    def is_read(self, key: int) -> bool:
        return key in _READ

    def on_request(self, asked: Asked) -> None:
        """A session ends with its connection: the first request of another one has to open another session."""
        epoch = asked.request.share_session_epoch
        if not self._has_session and epoch:
            member = asked.request.member_id
            self._book.wrong_epochs.append(f"{member} begins with {epoch} at {asked.at:.3f}")
        self._has_session = True
        self._book.owners.setdefault(asked.request.member_id, self._owner)

    def is_idle(self, asked: Asked) -> bool:
        """What a fetch brings is known later. What is written isn't read."""
        if asked.request is None:
            return asked.key != ProduceRequest.API_KEY
        return isinstance(asked.request, ShareAcknowledgeRequest) and not _settles(asked.request)

    def without_response(self, asked: Asked) -> None:
        self._book.note_acks(asked.request, asked.at, None)

    def responded(self, asked: Asked, frame: bytes, *, is_gone: bool) -> Iterator[Part]:
        book = self._book
        response = decode_response(_READ[asked.key], asked.version, frame[4:])[1]
        settled = book.note_acks(asked.request, asked.at, response)
        fault = "gone" if is_gone else book.choose(response)
        acquired = book.note_acquired(asked.request, asked.at, response, fault)
        if fault is not None:
            book.done[fault] += 1
        self._tell(asked.request, response, acquired, fault)
        if isinstance(asked.request, ShareFetchRequest) and not (acquired or _settles(asked.request)):
            self.note_idle(asked)

        def lost() -> None:
            mark_lost(acquired, settled)

        if fault in UNKNOWABLE:
            lost()
        if fault == "corrupt batch":
            book.spoil(response)
            frame = bytes(encode_response(response, asked.version, int.from_bytes(frame[4:8], "big")))
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

    def _tell(self, request: Any, response: Any, acquired: list[Acquired], fault: str | None) -> None:
        def note(what: str) -> None:
            self._note(f"{self._owner} {what}", request.member_id)

        for topic in request.topics:
            for row in topic.partitions:
                number = self._book.number(topic.topic_id, row.partition_index)
                name = f"deleted [{row.partition_index}]" if number is None else self._book.name(number)
                for batch in row.acknowledgement_batches:
                    where = f"{name}:{batch.first_offset}-{batch.last_offset}"
                    note(f"acknowledges {where}: {_told(batch.acknowledge_types)}")
        for got in acquired:
            note(f"gets {self._book.name(got.partition)}:{got.first}-{got.last}, delivery {got.delivery}")
        if response.error_code:
            note(f"gets {error_name(response.error_code)} ({type(response).__name__})")
        if fault:
            note(f"has a fault: {fault} ({type(response).__name__})")


def _told(kinds: Iterable[int]) -> str:
    """One for all offsets of a range, or one for each: alike neighbours are counted."""
    runs = [(AcknowledgeType(kind).word, len([*run])) for kind, run in groupby(kinds)]
    return ", ".join(kind if count == 1 else f"{count} {kind}" for kind, count in runs)


def _settles(request: Any) -> bool:
    """Whether anything is acknowledged that isn't just given back or renewed."""
    kinds = {
        kind
        for topic in request.topics
        for row in topic.partitions
        for batch in row.acknowledgement_batches
        for kind in batch.acknowledge_types
    }
    return bool(kinds - {RELEASE, RENEW})


_WRITING = {
    kind.API_KEY for kind in (ProduceRequest, InitProducerIdRequest, AddPartitionsToTxnRequest, EndTxnRequest)
}


class WriteTap(Tap):
    """Loses, cuts and delays responses to producers. `rate` is the share of them."""

    def __init__(self, random: Random, rate: Callable[[], float], done: Callable[[str], None]) -> None:
        super().__init__()
        self._random = random
        self._rate = rate
        self._done = done
        self._written: set[bytes] = set()

    def is_read(self, key: int) -> bool:
        return key in _WRITING

    def is_idle(self, asked: Asked) -> bool:
        """What is written again brings nothing new."""
        if not isinstance(asked.request, ProduceRequest):
            return True
        batches = {
            bytes(row.records or b"") for topic in asked.request.topic_data for row in topic.partition_data
        }
        is_new = not batches <= self._written
        self._written |= batches
        return not is_new

    def responded(self, asked: Asked, frame: bytes, *, is_gone: bool) -> Iterator[Part]:
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


def _nothing() -> None:
    pass
