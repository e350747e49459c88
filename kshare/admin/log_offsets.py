"""Offsets of a topic's log, as the partition leaders report them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from kshare.admin.expected_rows import left_out
from kshare.admin.results import TopicPartition
from kshare.admin.routing import ResponseError, Router, response_error
from kshare.errors import BrokerError, ConfigError
from kshare.net.permissions import Right
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from kshare.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic

LATEST, EARLIEST = -1, -2
_CONSUMER = -1


async def partitions_of(router: Router, topics: Mapping[str, Iterable[int] | None]) -> list[TopicPartition]:
    """The selected partitions, or all of a topic. Raises ConfigError for a partition that doesn't exist."""
    if not topics:
        raise ConfigError('no topics are given: write {"orders": None} for all partitions of orders')
    response = await router.metadata(topics)
    found = []
    for topic in response.topics:
        name = topic.name or ""
        existing = sorted(partition.partition_index for partition in topic.partitions)
        requested = topics[name]
        wanted = existing if requested is None else sorted(set(requested))
        missing = [number for number in wanted if number not in existing]
        if missing:
            raise ConfigError(no_partition(name, missing[0], len(existing)))
        found += [(name, number) for number in wanted]
    return found


def no_partition(topic: str, number: int, count: int) -> str:
    """The message of an error: the topic has `count` partitions, but not this one."""
    return f"topic {topic} has no partition {number} (it has {count} partition{'' if count == 1 else 's'})"


async def log_offsets(
    router: Router, where: Iterable[TopicPartition], time: int, *, is_committed_only: bool = False
) -> dict[TopicPartition, int]:
    """For each partition, the first offset at or after `time` (milliseconds, EARLIEST or LATEST); -1 if there is none.

    With `is_committed_only`, LATEST is the start of the first open transaction.
    """
    wanted = set(where)

    async def step(deadline: float) -> dict[TopicPartition, int]:
        """Look up all leaders again, since they may have moved."""
        found: dict[TopicPartition, int] = {}
        for leader, pairs in (await _leaders(router, wanted, deadline)).items():
            response = await router.ask(
                leader, _request(pairs, time, is_committed_only), _errors_of, deadline
            )
            found |= {
                (topic.name, row.partition_index): row.offset
                for topic in response.topics
                for row in topic.partitions
            }
            for topic, number in pairs:
                if (topic, number) not in found:
                    raise left_out("ListOffsets", f"{topic}[{number}]")
        return found

    return await router.retry(step)


async def _leaders(
    router: Router, wanted: set[TopicPartition], deadline: float
) -> dict[int, list[TopicPartition]]:
    response = await router.metadata(sorted({topic for topic, _ in wanted}), deadline)
    leaders: dict[int, list[TopicPartition]] = defaultdict(list)
    for found in response.topics:
        for row in found.partitions:
            where = (found.name or "", row.partition_index)
            if where in wanted:
                if row.leader_id < 0:
                    raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"{where[0]}[{where[1]}]")
                leaders[row.leader_id].append(where)
    for topic, number in wanted - {where for pairs in leaders.values() for where in pairs}:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}[{number}]")
    return leaders


def _request(pairs: Iterable[TopicPartition], time: int, is_committed_only: bool) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for name, number in pairs:
        rows = topics.setdefault(name, ListOffsetsTopic(name)).partitions
        rows.append(ListOffsetsPartition(number, timestamp=time))
    return ListOffsetsRequest(_CONSUMER, int(is_committed_only), topics=list(topics.values()))


def _errors_of(response: ListOffsetsResponse) -> Iterable[ResponseError | None]:
    for topic in response.topics:
        for row in topic.partitions:
            action = f"offsets of {topic.name}[{row.partition_index}]"
            yield response_error(row, action, Right("Describe", "topic", topic.name))
