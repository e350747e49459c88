"""The stored states of share-partitions, followed: what is new since the last look is all that is read."""

from __future__ import annotations

from collections.abc import Iterable

from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.log_reading import LogReader
from kshare.admin.routing import Router
from kshare.admin.share_states import home_of
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode
from kshare.state.share_records import TOPIC, SharePartition, ShareState, ShareStates


class StoredStates:
    """Where we may not read the topic, or there is none, nothing is known."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._reader = LogReader(router)
        self._folds: dict[int, ShareStates] = {}
        self._read_to: dict[int, int] = {}
        self._topic: tuple[bytes, int] | None = None
        self._is_closed_to_us = False

    async def of(self, wanted: Iterable[SharePartition]) -> dict[SharePartition, ShareState]:
        where = list(wanted)
        if not where or self._is_closed_to_us:
            return {}
        try:
            await self._follow(where)
        except BrokerError as error:
            self._is_closed_to_us = error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return {}
        found: dict[SharePartition, ShareState] = {}
        for fold in self._folds.values():
            found |= {one: fold.states[one] for one in where if one in fold.states}
        return found

    async def _follow(self, where: Iterable[SharePartition]) -> None:
        if self._topic is None:
            topic = (await self._router.metadata([TOPIC])).topics[0]
            self._topic = topic.topic_id, len(topic.partitions)
        topic_id, count = self._topic
        homes = sorted({home_of(one, count) for one in where})
        firsts = await log_offsets(self._router, [(TOPIC, home) for home in homes], EARLIEST)
        ends = await log_offsets(self._router, [(TOPIC, home) for home in homes], LATEST)
        for home in homes:
            first, end = firsts[TOPIC, home], ends[TOPIC, home]
            at = self._read_to.get(home, first)
            if at < first:  # what we hadn't read is cut off; a newer snapshot stands farther back
                self._folds.pop(home, None)
                at = first
            fold = self._folds.setdefault(home, ShareStates())
            async for batch in self._reader.batches((topic_id, home), at, end):
                for record in batch:
                    if record.offset >= at:
                        fold.apply(record.key, record.value)
            self._read_to[home] = end
