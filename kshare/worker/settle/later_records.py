"""Looks whether a log has a record with some header behind an offset.

When a worker has died, many copies of its runs become due at once, and each asks this. Those that ask while a log is
being read wait for one more pass, which decides for all of them. If a pass fails, only the one who made it is told:
others try themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import anyio
from anyio.lowlevel import checkpoint

from kshare.admin.log_offsets import EARLIEST, log_offsets
from kshare.admin.log_reading import FetchedBatches, LogReader
from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode
from kshare.worker.records.headers import Header, own_bytes

_NOTHING_S = 0.1
"""How long to wait before a log is read on that has more, when nothing came."""


@dataclass(eq=False, slots=True)
class _Question:
    offset: int
    header: Header
    response: bool | None = None


class LaterRecords:
    """Of any topics."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._reader = LogReader(router, wait_s=0.0)
        self._open: defaultdict[TopicPartition, dict[_Question, None]] = defaultdict(dict)
        """Questions whose asker waits, in order."""
        self._reading: defaultdict[TopicPartition, anyio.Lock] = defaultdict(anyio.Lock)
        self._ids: dict[str, bytes] = {}

    async def has(self, topic: str, partition: int, offset: int, header: Header) -> bool:
        """Whether a record behind this offset, written before this is called, has the header."""
        where, question = (topic, partition), _Question(offset, header)
        questions = self._open[where]
        questions[question] = None
        try:
            async with self._reading[where]:
                if question.response is None:
                    # Not those that need an earlier part of the log, which may be damaged.
                    asked = [other for other in questions if other.offset >= offset]
                    await self._read(where, offset + 1, asked)
                    for other in asked:
                        other.response = bool(other.response)
        finally:
            del questions[question]
        return bool(question.response)

    async def _read(self, where: TopicPartition, at: int, questions: Iterable[_Question]) -> None:
        """Note what is found from this offset on, until nothing is left to look for."""
        wanted: defaultdict[Header, list[_Question]] = defaultdict(list)
        for question in questions:
            if question.response is None:
                wanted[question.header].append(question)
        while wanted:
            fetched, at = await self._fetch(where, at)
            before = at
            for batch, _ in fetched.batches():
                at = batch.last_offset + 1
                for record in batch:
                    for header in own_bytes(record.headers) if wanted else ():
                        _note(wanted, header, record.offset)
                await checkpoint()
            if at >= fetched.end:
                return
            if at == before:  # as when the broker throttles us
                await anyio.sleep(_NOTHING_S)

    async def _fetch(self, where: TopicPartition, at: int) -> tuple[FetchedBatches, int]:
        """From this offset on, or from the first that isn't deleted, which is returned."""
        topic, partition = where
        topic_id = self._ids.pop(topic, None)  # looked up again if this fails: it may be created again
        if topic_id is None:
            topic_id = (await self._router.metadata([topic])).topics[0].topic_id
        try:
            fetched = await self._reader.fetch((topic_id, partition), at)
        except BrokerError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            at = max(at, (await log_offsets(self._router, [where], EARLIEST))[where])
            fetched = await self._reader.fetch((topic_id, partition), at)
        self._ids[topic] = topic_id
        return fetched, at


def _note(wanted: dict[Header, list[_Question]], header: Header, offset: int) -> None:
    """A record at this offset has the header."""
    asked = wanted.get(header)
    if asked is None:
        return
    for question in asked:
        if question.offset < offset:
            question.response = True
    wanted[header] = [question for question in asked if question.response is None]
    if not wanted[header]:
        del wanted[header]
