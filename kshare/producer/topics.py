"""The topics that are written to: their partitions and leaders, and the partition of a record without a key.

Looks a topic up when it is first written to, again after a broker has refused to lead, and every five minutes while it
is written to, because partitions may be added. Missing topics are created if brokers do that for producers
(`auto.create.topics.enable`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import anyio

from kshare.admin.expected_rows import expected_row
from kshare.admin.routing import ResponseError, Router, response_error
from kshare.errors import BrokerError, KshareError
from kshare.net.permissions import Right
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import MetadataRequest, MetadataResponse
from kshare.protocol.messages.metadata_request import MetadataRequestTopic

_BEING_MADE_S = 5.0
_PAUSE_S = 0.1
MAX_AGE_S = 300.0
"""As with Java's producers."""
_TRIES = 8


@dataclass(slots=True)
class WrittenTopic:
    """A topic that is written to."""

    topic_id: bytes
    leaders: dict[int, int]
    """The leader of each partition; -1 if there is none."""
    looked_up_at: float = 0.0
    is_stale: bool = False
    """Not to be relied on: a leader has refused, or is out of reach."""
    preferred: int = -1
    """The partition that records without a key currently go to."""
    turn: int = -1

    def partition_in_turn(self) -> int:
        """Another one each time."""
        self.turn = (self.turn + 1) % len(self.leaders)
        return self.turn

    def partition_without_key(self, random: Random, may_join: Callable[[int], bool]) -> int:
        """Stay with a partition while its batch has room, so that batches become large; then choose another one."""
        if self.preferred >= 0 and may_join(self.preferred):
            return self.preferred
        count = len(self.leaders)
        for _ in range(_TRIES):  # nearly always enough, and doesn't look at all of them
            number = random.randrange(count)
            if number != self.preferred and self.leaders.get(number, -1) >= 0:
                self.preferred = number
                return number
        led = [number for number, leader in self.leaders.items() if leader >= 0] or [*self.leaders]
        others = [number for number in led if number != self.preferred]
        self.preferred = random.choice(others or led)
        return self.preferred


class WrittenTopics:
    def __init__(self, router: Router) -> None:
        self._router = router
        self._topics: dict[str, WrittenTopic] = {}
        self._by_id: dict[bytes, str] = {}
        self._lock = anyio.Lock()

    def known(self, name: str) -> WrittenTopic | None:
        return self._topics.get(name)

    def name_of(self, topic_id: bytes) -> str:
        return self._by_id.get(topic_id, "")

    async def find(self, name: str) -> WrittenTopic:
        """The topic; looks it up if it isn't known, or too old. Raises BrokerError if it doesn't exist."""
        found = self._topics.get(name)
        if found is None:
            async with self._lock:
                found = self._topics.get(name) or await self.refresh(name)
        elif self.is_old(found):
            with suppress(KshareError):  # it was there before; what's wrong is told when it is written to
                found = await self.refresh(name)
        return found

    def is_old(self, topic: WrittenTopic) -> bool:
        return anyio.current_time() - topic.looked_up_at >= MAX_AGE_S

    async def refresh(self, name: str) -> WrittenTopic:
        """While a topic is being created by this request, brokers report it as unknown for a moment: retry."""
        patience = anyio.current_time() + _BEING_MADE_S
        while True:
            request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
            try:
                response = await self._router.ask_any(request, _errors)
                break
            except BrokerError as error:
                unknown = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if not unknown or anyio.current_time() > patience:
                    raise
            await anyio.sleep(_PAUSE_S)
        self._router.learn(response)
        row = expected_row(response.topics, "Metadata", f"topic {name}")
        expected_row(row.partitions, "Metadata", f"the partitions of topic {name}")
        leaders = {partition.partition_index: partition.leader_id for partition in row.partitions}
        previous = self._topics.get(name)
        found = WrittenTopic(row.topic_id, leaders, anyio.current_time())
        if previous is not None:
            found.preferred, found.turn = previous.preferred, previous.turn
        self._topics[name] = found
        self._by_id[row.topic_id] = name
        return found


def _errors(response: MetadataResponse) -> Iterable[ResponseError | None]:
    yield response_error(response, "finding the brokers")
    for topic in response.topics:
        name = topic.name or ""
        yield response_error(topic, f"topic {name}", Right("Describe", "topic", name))
