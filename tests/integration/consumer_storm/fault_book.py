"""Decides what happens to responses, and notes what brokers acquire for members, and what members acknowledge.

Does no IO: proxies and simulated networks pass it what they see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any

from kshare.protocol.message import Message
from kshare.protocol.messages import ShareAcknowledgeResponse, ShareFetchResponse
from kshare.surroundings import monotonic

_RENEW = 4
"""The type of an acknowledgement that only renews the lock."""
_HEADER_OF_BATCH, _LENGTH_ENDS = 61, 12
_CUT = 0.3
"""The share of corrupt batches that are cut off, with all that follows."""
UNKNOWABLE = ("undecodable response", "cut response", "lost response", "gone")
"""What happens to a response so that its client can't know what is in it."""
FAULTS = ("corrupt batch", "undecodable response", "cut response", "lost response", "late response", "drop")


@dataclass(slots=True)
class Acquired:
    """A broker has acquired these for a member."""

    at: float
    asked_at: float
    """When the fetch was read that brought them. It may have waited for records."""
    member: str
    partition: int
    first: int
    last: int
    delivery: int
    fault: str | None
    """What became of the response, if it didn't reach the client as it was. "gone" if the client had gone."""


@dataclass(slots=True)
class Acknowledged:
    """A member has asked a broker for this."""

    at: float
    member: str
    partition: int
    first: int
    last: int
    kinds: tuple[int, ...]
    """One for all of these offsets, or one for each."""
    responded_at: float
    error: int | None
    """None if the broker didn't respond."""
    is_lost: bool = False
    """Whether the client can't know the response: it was lost, or can't be decoded."""

    def kind_of(self, offset: int) -> int:
        return self.kinds[0] if len(self.kinds) == 1 else self.kinds[offset - self.first]


@dataclass
class FaultBook:
    topic_id: bytes
    random: Random
    lock_s: float
    rate: float = 0.0
    """The share of responses to ShareFetch and ShareAcknowledge that something happens to."""
    is_corrupting: bool = False
    """Every record batch of one partition is corrupted: of the first that is fetched meanwhile."""
    corrupted: int | None = None
    """That partition."""
    acquired: list[Acquired] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    wrong_epochs: list[str] = field(default_factory=list)
    """Members that went on with a session that had ended with its connection. Only simulations look."""
    owners: dict[str, str] = field(default_factory=dict)
    """The processes of members, in simulations."""
    done: Counter[str] = field(default_factory=Counter)
    """How often each fault happened to a response with acquired records or results, while its client was there."""

    def choose(self, response: Message) -> str | None:
        """What happens to this response."""
        rows = _with_records(response)
        brings_records = bool(rows)
        if not self.is_corrupting:
            self.corrupted = None
        elif self.corrupted is None and rows:
            self.corrupted = self.random.choice(rows).partition_index
        if any(row.partition_index == self.corrupted for row in rows):
            return "corrupt batch"
        if not brings_records and not isinstance(response, ShareAcknowledgeResponse):
            return None
        if self.random.random() >= self.rate:
            return None
        kinds = FAULTS[:5] if brings_records else FAULTS[2:5]
        # In turn, so that a short storm has them all.
        return min(kinds, key=lambda kind: self.done[kind])

    def spoil(self, response: Any) -> None:
        """Flip a bit of the records of one partition, which a checksum covers, or cut them off."""
        rows = _with_records(response)
        row = next((row for row in rows if row.partition_index == self.corrupted), self.random.choice(rows))
        records = bytearray(row.records)
        size = _LENGTH_ENDS + int.from_bytes(records[8:12], "big")
        at = self.random.randrange(_HEADER_OF_BATCH, min(size, len(records)))
        if self.random.random() < _CUT:
            del records[at:]
        else:
            records[at] ^= 1 << self.random.randrange(8)
        row.records = bytes(records)

    def late_s(self) -> float:
        """By how much a late response is late."""
        return self.random.choice([0.1, 0.3, 1.1]) * self.lock_s

    def number(self, topic_id: bytes, index: int) -> int | None:
        """By which the judge knows this partition. None if it isn't of the storm's topic."""
        return index if topic_id == self.topic_id else None

    def name(self, number: int) -> str:
        """Of a partition with this number, for those who read a replay."""
        return str(number)

    def note_acquired(
        self, request: Any, asked_at: float, response: Any, fault: str | None
    ) -> list[Acquired]:
        if not isinstance(response, ShareFetchResponse):
            return []
        now = monotonic()
        acquired = [
            Acquired(
                now,
                asked_at,
                request.member_id,
                number,
                record.first_offset,
                record.last_offset,
                record.delivery_count,
                fault,
            )
            for topic in response.responses
            for row in topic.partitions
            if (number := self.number(topic.topic_id, row.partition_index)) is not None
            for record in row.acquired_records
        ]
        self.acquired += acquired
        return acquired

    def locked_from(self, member: str, partition: int, first: int, last: int) -> float:
        """When the member last asked for the lock of these: to acquire or to renew it. `inf` if that isn't known."""

        def is_about_them(row: Acquired | Acknowledged) -> bool:
            is_of_member = (row.member, row.partition) == (member, partition)
            return is_of_member and row.first <= last and first <= row.last

        acquired = [row.asked_at for row in self.acquired if is_about_them(row)]
        renewing = (row for row in self.acknowledged if row.error == 0 and _RENEW in row.kinds)
        return max([*acquired, *(row.at for row in renewing if is_about_them(row))], default=inf)

    def note_acks(self, request: Any, asked_at: float, response: Any) -> list[Acknowledged]:
        """`response` is None if there is none."""
        errors: dict[tuple[bytes, int], int] = {}
        if response is not None:
            for topic in response.responses:
                for row in topic.partitions:
                    is_fetch = isinstance(response, ShareFetchResponse)
                    errors[topic.topic_id, row.partition_index] = (
                        row.acknowledge_error_code if is_fetch else row.error_code
                    )
        now = monotonic()
        noted: list[Acknowledged] = []
        for topic in request.topics:
            for row in topic.partitions:
                number = self.number(topic.topic_id, row.partition_index)
                if number is None:
                    continue
                for batch in row.acknowledgement_batches:
                    found = errors.get((topic.topic_id, row.partition_index), 0)
                    error = None if response is None else response.error_code or found
                    noted.append(
                        Acknowledged(
                            asked_at,
                            request.member_id,
                            number,
                            batch.first_offset,
                            batch.last_offset,
                            tuple(batch.acknowledge_types),
                            now,
                            error,
                        )
                    )
        self.acknowledged += noted
        return noted


def mark_lost(acquired: Iterable[Acquired], acknowledged: Iterable[Acknowledged]) -> None:
    """The response that tells a client of these doesn't reach it."""
    for span in acquired:
        if span.fault not in UNKNOWABLE:
            span.fault = "gone"
    for row in acknowledged:
        row.is_lost = True


def _with_records(response: Any) -> list[Any]:
    """The partitions of which records were acquired."""
    if not isinstance(response, ShareFetchResponse):
        return []
    rows = [row for topic in response.responses for row in topic.partitions]
    return [row for row in rows if row.acquired_records and len(row.records or b"") > _HEADER_OF_BATCH]
