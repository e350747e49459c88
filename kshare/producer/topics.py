"""The topics that are written to: their partitions and leaders, and the partition of a record without a key.

Looks a topic up when it is first written to, and again after a broker has refused to lead. Missing topics are created
if brokers do that for producers (`auto.create.topics.enable`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

import anyio

from kshare.admin.expected_rows import expected_row
from kshare.admin.routing import ResponseError, Router, response_error
from kshare.errors import BrokerError
from kshare.net.permissions import Right
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import MetadataRequest, MetadataResponse
from kshare.protocol.messages.metadata_request import MetadataRequestTopic

_BEING_MADE_S = 5.0
_PAUSE_S = 0.1


@dataclass(slots=True)
class WrittenTopic:
    """A topic that is written to."""

    topic_id: bytes
    leaders: dict[int, int]
    """The leader of each partition; -1 if there is none."""
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
        """The topic; looks it up if it isn't known. Raises BrokerError if it doesn't exist."""
        found = self._topics.get(name)
        if found is None:
            async with self._lock:
                found = self._topics.get(name) or await self.refresh(name)
        return found

    async def refresh(self, name: str) -> WrittenTopic:
        """While a topic is being created by this request, brokers report it as unknown for a moment: retry."""
        patience = anyio.current_time() + _BEING_MADE_S
        while True:
            request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
            try:
                answer = await self._router.ask_any(request, _errors)
                break
            except BrokerError as error:
                unknown = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if not unknown or anyio.current_time() > patience:
                    raise
            await anyio.sleep(_PAUSE_S)
        self._router.learn(answer)
        row = expected_row(answer.topics, "Metadata", f"topic {name}")
        expected_row(row.partitions, "Metadata", f"the partitions of topic {name}")
        leaders = {one.partition_index: one.leader_id for one in row.partitions}
        previous = self._topics.get(name)
        found = WrittenTopic(row.topic_id, leaders)
        if previous is not None:
            found.preferred, found.turn = previous.preferred, previous.turn
        self._topics[name] = found
        self._by_id[row.topic_id] = name
        return found


def _errors(answer: MetadataResponse) -> Iterable[ResponseError | None]:
    yield response_error(answer.error_code, "finding the brokers")
    for topic in answer.topics:
        name = topic.name or ""
        yield response_error(topic.error_code, f"topic {name}", needs=[Right("Describe", "topic", name)])
