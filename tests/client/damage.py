"""Recorded responses to ShareFetch, damaged, and what a consumer makes of them compared with the undamaged ones."""

from __future__ import annotations

import base64
import json
import logging
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from kshare.client.config import ConsumerConfig
from kshare.client.holdings import Holdings
from kshare.client.record import lease_of
from kshare.dissect import dissect_response
from kshare.engine.events import Damaged, Event, SessionEnded
from kshare.engine.node_session import NodeSession
from kshare.engine.reporter import Reporter
from kshare.errors import CorruptBatchError, DecodeError
from kshare.net.pending import PendingRequest
from kshare.protocol.envelopes import decode_response, encode_response
from kshare.protocol.messages import ShareFetchResponse
from kshare.protocol.record import Record
from kshare.protocol.records import read_batches
from kshare.state.lease import GAP, RELEASE, TopicIdPartition
from kshare.state.lease_timers import LeaseTimers
from kshare.state.session import ShareSession

FILE = Path(__file__).parents[1] / "golden" / "share_responses.jsonl"
SHARE_FETCH = 78
_SETTINGS = ConsumerConfig.make("x:1", {"group": "g", "topics": ["t"]}).member_settings()
Where = tuple[TopicIdPartition, int]
"""A partition and an offset."""


class Recorded(NamedTuple):
    """One response of a real broker."""

    name: str
    version: int
    partitions: list[TopicIdPartition]
    frame: bytes
    """Without the length prefix."""

    def response(self) -> ShareFetchResponse:
        return decode_response(ShareFetchResponse, self.version, self.frame)[1]

    def with_response(self, response: ShareFetchResponse) -> bytes:
        return bytes(encode_response(response, self.version, 1)[4:])


@cache
def recorded() -> list[Recorded]:
    found = []
    for number, line in enumerate(FILE.read_text("utf-8").splitlines()):
        one = json.loads(line)
        partitions = [(bytes.fromhex(topic), index) for topic, index in one["partitions"]]
        name = f"{number}: {one['kind']} of {one['release']}"
        found.append(Recorded(name, one["version"], partitions, base64.b64decode(one["body"])))
    return found


class AckOutcome(NamedTuple):
    """What a consumer made of a response."""

    handed: dict[Where, tuple[Any, ...]]
    """The records that the user would receive."""
    gaps: set[Where]
    released: list[tuple[TopicIdPartition, int, int]]
    """First and last offset of each range."""
    terms: list[tuple[Any, ...]]
    """What else the consumer derives from each range: delivery count, deadline, leader epochs."""
    is_noticed: bool

    def lost(self, truth: dict[Where, tuple[Any, ...]]) -> list[int]:
        """Offsets of records that would be acknowledged as gaps."""
        return sorted(where[1] for where in self.gaps & truth.keys())

    def is_like(self, sound: AckOutcome) -> bool:
        return self[:4] == sound[:4]

    def mistaken(self, truth: dict[Where, tuple[Any, ...]]) -> list[int]:
        """Offsets whose records differ from the stored ones."""
        return [where[1] for where, record in self.handed.items() if truth.get(where) != record]


class _Line:
    """Keeps the request, so that a test can respond to it."""

    is_free = True

    def send(self, request: Any, on_response: Any) -> Any:
        self.request, self.on_response = request, on_response


class _Ears(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def handle(self, record: logging.LogRecord) -> bool:
        self.count += 1
        return True


def outcome(one: Recorded, frame: bytes) -> AckOutcome:
    """Process a response from its frame to the user; returns also what would be acknowledged without the user."""
    try:
        _, response = decode_response(ShareFetchResponse, one.version, frame)
    except DecodeError:
        return AckOutcome({}, set(), [], [], is_noticed=True)
    events: list[Event] = []
    refused: list[Any] = []
    lease_timers = LeaseTimers(can_renew=True, max_lease_s=100.0)
    holdings = Holdings(
        max_records=1000,
        lease_timers=lease_timers,
        clock=lambda: 0.0,
        reporter=Reporter(events.append),
        suspended=lambda: 0.0,
    )
    line = _Line()
    node = NodeSession(
        1,
        ShareSession("g", "m"),
        line,  # type: ignore[arg-type]
        _SETTINGS,
        holdings.book,
        lambda topic: topic.hex(),
        lambda *moved: refused.append(moved),
    )
    logger, ears = logging.getLogger("kshare.client"), _Ears()
    logger.addHandler(ears)
    logger.propagate = False
    try:
        node.want(one.partitions)
        holdings.next_batch()  # nothing is fetched before somebody asks
        node.flush()
        line.on_response(PendingRequest(line.request), response)
        handed, is_noticed = _handed(holdings)
    finally:
        logger.removeHandler(ears)
        logger.propagate = True
    leases = [(partition, lease) for partition, acks in node.partition_acks.items() for lease in acks.leases]
    gaps = {
        (partition, offset)
        for partition, lease in leases
        for first, last in lease.spans_in(lease.first, lease.last, ((GAP, GAP),))
        for offset in range(first, last + 1)
    }
    released = [
        (partition, *span)
        for partition, lease in leases
        for span in lease.spans_in(lease.first, lease.last, ((RELEASE, RELEASE),))
    ]
    is_noticed = is_noticed or ears.count > 0 or bool(refused)
    is_noticed = is_noticed or any(isinstance(event, Damaged | SessionEnded) for event in events)
    terms = [(one.delivery_count, one.deadline, *one.leader_epochs) for _, one in leases]
    return AckOutcome(handed, gaps, released, terms, is_noticed)


def _handed(holdings: Holdings) -> tuple[dict[Where, tuple[Any, ...]], bool]:
    handed: dict[Where, tuple[Any, ...]] = {}
    is_noticed = False
    while (batch := holdings.next_batch()) is not None:
        try:
            for record in batch:
                handed[lease_of(batch).partition, record.offset] = _content(record)
        except CorruptBatchError:
            is_noticed = True
    return handed, is_noticed


def stored(one: Recorded) -> dict[Where, tuple[Any, ...]]:
    """Every user record in the response, acquired or not."""
    return {
        ((topic.topic_id, data.partition_index), record.offset): _content(record)
        for topic in one.response().responses
        for data in topic.partitions
        for batch in read_batches(data.records or b"")
        if not batch.is_control
        for record in batch
    }


def _content(record: Record) -> tuple[Any, ...]:
    return record.key, record.value, record.headers, record.timestamp


def fields(one: Recorded) -> list[str]:
    """For each byte of the frame, the name of its field, without indexes."""
    names = [""] * len(one.frame)
    tree = dissect_response(one.frame, SHARE_FETCH, one.version, is_sized=False)
    for span in tree.root.leaves():
        for position in range(span.offset, span.end):
            names[position] = span.name
    return names


class Placed(NamedTuple):
    """A batch in the response, and whether other parts of the response determine its position."""

    partition: TopicIdPartition
    start: int
    """The position of its bytes in the frame."""
    end: int
    is_loose: bool
    """It borders on a gap, or not all of its offsets were acquired, so other base offsets would be consistent too."""


def placed(one: Recorded) -> list[Placed]:
    found = []
    for topic in one.response().responses:
        for data in topic.partitions:
            batches = list(read_batches(data.records or b""))
            position = one.frame.find(bytes(data.records or b"")) if batches else 0
            acquired = {
                offset
                for row in data.acquired_records
                for offset in range(row.first_offset, row.last_offset + 1)
            }
            covered = {
                offset for batch in batches for offset in range(batch.base_offset, batch.last_offset + 1)
            }
            for index, batch in enumerate(batches):
                neighbours = batches[max(index - 1, 0) : index + 2]
                is_loose = any(one.last_offset + 1 != two.base_offset for one, two in pairwise(neighbours))
                mine = set(range(batch.base_offset, batch.last_offset + 1))
                is_loose |= not mine <= acquired or bool({min(mine) - 1, max(mine) + 1} & acquired - covered)
                where = (topic.topic_id, data.partition_index)
                found.append(Placed(where, position, position + batch.size, is_loose))
                position += batch.size
    return found
