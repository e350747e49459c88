"""Looks whether a log has a record with some header behind an offset.

When a worker has died, many copies of its runs become due at once, and each asks this. Those that ask while a log is
being read wait for one more pass, which decides for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import anyio

from kshare.admin.log_offsets import EARLIEST, log_offsets
from kshare.admin.log_reading import LogReader
from kshare.admin.routing import Router
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode
from kshare.worker.headers import Header, own_bytes

_NOTHING_S = 0.1
"""How long to wait before a log is read on that has more, when nothing came."""


@dataclass(eq=False, slots=True)
class _Question:
    offset: int
    header: Header
    answer: bool | None = None


class LaterRecords:
    """Of any topics."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._reader = LogReader(router, wait_s=0.0)
        self._open: defaultdict[tuple[str, int], list[_Question]] = defaultdict(list)
        """Questions that no pass takes care of yet."""
        self._ids: dict[str, bytes] = {}
        self._reading: defaultdict[tuple[str, int], anyio.Lock] = defaultdict(anyio.Lock)

    async def has(self, topic: str, partition: int, offset: int, header: Header) -> bool:
        """Whether a record behind this offset, written before this is called, has the header."""
        where, question = (topic, partition), _Question(offset, header)
        self._open[where].append(question)
        try:
            async with self._reading[where]:
                if question.answer is None:
                    await self._answer(where, self._open.pop(where))
        finally:
            if question in self._open[where]:
                self._open[where].remove(question)
        assert question.answer is not None, "a pass answers all questions that were open when it began"
        return question.answer

    async def _answer(self, where: tuple[str, int], questions: list[_Question]) -> None:
        try:
            await self._read(where, questions)
        except BaseException:
            # It may be due to the one who asked first, who was cancelled or has little time. Others try themselves.
            self._open[where] += [one for one in questions if one.answer is None]
            raise
        for one in questions:
            one.answer = bool(one.answer)

    async def _read(self, where: tuple[str, int], questions: list[_Question]) -> None:
        """Note what is found, until nothing is left to look for."""
        topic, partition = where
        topic_id = self._ids.pop(topic, None)  # looked up again if this fails: it may be created again
        if topic_id is None:
            topic_id = (await self._router.metadata([topic])).topics[0].topic_id
        at = 1 + min(one.offset for one in questions)
        while any(one.answer is None for one in questions):
            try:
                fetched = await self._reader.fetch((topic_id, partition), at)
            except BrokerError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                first = (await log_offsets(self._router, [where], EARLIEST))[where]
                if first <= at:
                    raise
                at = first  # what was before is deleted
                continue
            before = at
            for batch, _ in fetched.batches():
                at = batch.last_offset + 1
                for record in batch:
                    headers = own_bytes(record.headers)
                    for one in questions:
                        if record.offset > one.offset and one.header in headers:
                            one.answer = True
            if at >= fetched.end:
                break
            if at == before:  # as when the broker throttles us
                await anyio.sleep(_NOTHING_S)
        self._ids[topic] = topic_id
