"""The offsets of share groups: reads, sets, resets and deletes them.

Decides which offset a reset point stands for (`earliest`, a time), and refuses offsets that a partition doesn't have.
The coordinator refuses to change the offsets of a group that has members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Literal

from kshare.admin.expected_rows import expected_row
from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets, partitions_of
from kshare.admin.progress import ProgressReader
from kshare.admin.results import OffsetReset, PartitionOffset, TopicPartition
from kshare.admin.routing import ResponseError, Router, response_error
from kshare.errors import ConfigError, Unsupported
from kshare.net.permissions import Right
from kshare.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from kshare.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kshare.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequestTopic
from kshare.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)

ResetPoint = Literal["earliest", "latest"] | datetime | int
TopicSelection = Mapping[str, Iterable[int] | None]
"""Topics and their partitions; None stands for all partitions."""


async def share_group_offsets(
    router: Router, group: str, topics: TopicSelection | None
) -> list[PartitionOffset]:
    """The group's offsets in these topics, or in all that it reads."""
    wanted = None
    if topics is not None:
        chosen = await partitions_of(router, topics)
        wanted = [
            DescribeShareGroupOffsetsRequestTopic(topic, numbers) for topic, numbers in _by_topic(chosen)
        ]

    def errors_of(response: DescribeShareGroupOffsetsResponse) -> Iterable[ResponseError | None]:
        for described in response.groups:
            yield response_error(described, f"offsets of group {group}", Right("Describe", "group", group))
            for topic in described.topics:
                for row in topic.partitions:
                    action = f"offset of group {group} in {topic.topic_name}[{row.partition_index}]"
                    yield response_error(row, action, Right("Describe", "topic", topic.topic_name))

    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, wanted)])
    _, response = await router.ask_coordinator(group, request, errors_of)
    found = expected_row(response.groups, "DescribeShareGroupOffsets", f"group {group}")
    return sorted(
        (
            PartitionOffset(
                topic.topic_name,
                row.partition_index,
                row.start_offset if row.start_offset >= 0 else None,
                row.leader_epoch,
                row.lag if row.lag >= 0 else None,
            )
            for topic in found.topics
            for row in topic.partitions
        ),
        key=lambda row: (row.topic, row.partition),
    )


async def alter_offsets(router: Router, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    if not offsets:
        raise ConfigError('no offsets are given: write {("orders", 0): 42}')
    rows = [
        AlterShareGroupOffsetsRequestTopic(
            topic,
            [AlterShareGroupOffsetsRequestPartition(number, offsets[topic, number]) for number in numbers],
        )
        for topic, numbers in _by_topic(offsets)
    ]

    def errors_of(response: AlterShareGroupOffsetsResponse) -> Iterable[ResponseError | None]:
        yield response_error(response, f"setting offsets of group {group}", Right("Read", "group", group))
        for topic in response.responses:
            for row in topic.partitions:
                action = f"setting the offset of group {group} in {topic.topic_name}[{row.partition_index}]"
                yield response_error(row, action, Right("Read", "topic", topic.topic_name))

    _, response = await router.ask_coordinator(group, AlterShareGroupOffsetsRequest(group, rows), errors_of)
    if not response.responses:
        # Kafka 4.1 accepts the request, and responds with neither an error nor a topic.
        raise Unsupported(
            "the broker accepted AlterShareGroupOffsets but ignored it: setting offsets needs Kafka 4.2 or later"
        )


async def reset_offsets(
    router: Router, group: str, to: ResetPoint, topics: TopicSelection | None, *, is_dry_run: bool
) -> list[OffsetReset]:
    """Reset the offsets. Without `topics`, in all topics that the group has read."""
    current = await share_group_offsets(router, group, topics)
    if topics is None and not current:
        raise ConfigError(f"group {group} has read no topic yet: name the topics (topics=… or --topic)")
    # As in every other result: what the coordinator reports may leave out records settled after its start offset.
    progress = (await ProgressReader(router).read({group: current}))[group]
    before = {(row.topic, row.partition): row.start_offset for row in progress}
    after = await _offsets_at(router, to, before)
    if not is_dry_run:
        await alter_offsets(router, group, after)
    return [OffsetReset(*where, before[where], after[where]) for where in before]


async def delete_offsets(router: Router, group: str, topics: Iterable[str]) -> None:
    names = sorted(set(topics))

    def errors_of(response: DeleteShareGroupOffsetsResponse) -> Iterable[ResponseError | None]:
        action = f"deleting offsets of group {group}"
        yield response_error(response, action, Right("Delete", "group", group))
        for row in response.responses:
            yield response_error(row, f"{action} in {row.topic_name}", Right("Read", "topic", row.topic_name))

    request = DeleteShareGroupOffsetsRequest(
        group, [DeleteShareGroupOffsetsRequestTopic(name) for name in names]
    )
    # Not retried: a second request would be told that there are no offsets.
    await router.ask_coordinator(group, request, errors_of, is_repeatable=False)


async def _offsets_at(
    router: Router, to: ResetPoint, where: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    wanted = list(where)
    match to:
        case "earliest":
            return await log_offsets(router, wanted, EARLIEST)
        case "latest":
            return await log_offsets(router, wanted, LATEST)
        case datetime():
            if to.tzinfo is None:
                raise ConfigError(f"{to} has no time zone: write datetime(..., tzinfo=UTC)")
            if to.timestamp() < 0:
                raise ConfigError(f"{to} is before 1970, where Kafka's times begin: choose a later time")
            # If all records are older, the group continues at the end of the log. It is read first, because records
            # that are written in between are to be read.
            ends = await log_offsets(router, wanted, LATEST)
            found = await log_offsets(router, wanted, int(to.timestamp() * 1000))
            return {where: offset if offset >= 0 else ends[where] for where, offset in found.items()}
        case int() if not isinstance(to, bool):
            await _check_held(router, wanted, to)
            return dict.fromkeys(wanted, to)
    raise ConfigError(f'offsets are reset to "earliest", "latest", a datetime or a number, not to {to!r}')


async def _check_held(router: Router, where: list[TopicPartition], offset: int) -> None:
    first = await log_offsets(router, where, EARLIEST)
    end = await log_offsets(router, where, LATEST)
    for topic, number in where:
        held = first[topic, number], end[topic, number]
        if not held[0] <= offset <= held[1]:
            raise ConfigError(
                f"{topic}[{number}] has offsets {held[0]} to {held[1]}: {offset} is out of range"
            )


def _by_topic(where: Iterable[TopicPartition]) -> Iterable[tuple[str, list[int]]]:
    for topic, pairs in groupby(sorted(where), key=itemgetter(0)):
        yield topic, [number for _, number in pairs]
