"""Texts that a consumer group keeps with its committed offsets, in partitions of topics.

A group without members may commit, and its coordinator keeps the newest text of each partition for as long as offsets
are retained (`offsets.retention.minutes`, 7 days by default). Decides nothing about what a text means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kshare.admin.expected_rows import expected_row
from kshare.admin.results import TopicPartition
from kshare.admin.routing import ResponseError, Router, response_error
from kshare.net.permissions import Right
from kshare.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kshare.protocol.messages.offset_commit_request import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshare.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup

_BY_NAME = 9
"""The last version in which topics have names."""

LONGEST = 4_096
"""The longest text, in bytes, that brokers store by default (`offset.metadata.max.bytes`)."""


class CommittedText(NamedTuple):
    offset: int
    text: str


async def committed_texts(router: Router, group: str) -> dict[TopicPartition, CommittedText]:
    """The texts that this consumer group has; none if it doesn't exist."""

    def errors_of(response: OffsetFetchResponse) -> Iterable[ResponseError | None]:
        for row in response.groups:
            yield response_error(row, f"offsets of consumer group {group}", Right("Describe", "group", group))

    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)], require_stable=False)
    _, response = await router.ask_coordinator(group, request, errors_of, version=_BY_NAME)
    found = expected_row(response.groups, "OffsetFetch", f"consumer group {group}")
    return {
        (topic.name, row.partition_index): CommittedText(row.committed_offset, row.metadata)
        for topic in found.topics
        for row in topic.partitions
        if not row.error_code and row.committed_offset >= 0 and row.metadata
    }


async def commit_texts(
    router: Router, group: str, texts: Mapping[TopicPartition, str], offsets: Mapping[TopicPartition, int]
) -> None:
    """Store these texts, each with an offset of its partition, 0 if `offsets` has none."""

    def errors_of(response: OffsetCommitResponse) -> Iterable[ResponseError | None]:
        for topic in response.topics:
            needs = [Right("Read", "group", group), Right("Read", "topic", topic.name)]
            for row in topic.partitions:
                action = f"committing an offset of consumer group {group} in {topic.name}"
                yield response_error(row, f"{action}[{row.partition_index}]", *needs)

    topics = [
        OffsetCommitRequestTopic(
            name,
            partitions=[
                OffsetCommitRequestPartition(number, offsets.get((name, number), 0), committed_metadata=text)
            ],
        )
        for (name, number), text in texts.items()
    ]
    request = OffsetCommitRequest(group, topics=topics)
    await router.ask_coordinator(group, request, errors_of, version=_BY_NAME)
