"""Finds which dead letters were redriven: those that the redriving group has settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router
from kshare.admin.share_states import share_states
from kshare.cli.dlq.dead_letter import DeadLetter
from kshare.state.share_records import SharePartitionKey


def default_group(topic: str) -> str:
    """The share group that keeps track of redriven dead letters, unless the user names another."""
    return f"kshare-dlq-{topic}"


@dataclass(frozen=True, slots=True)
class RedrivenLetters:
    """The dead letters of one topic that one group has redriven."""

    starts: Mapping[int, int]
    """By partition: all dead letters before this offset are settled."""
    beyond: frozenset[tuple[int, int]]
    """Partition and offset of settled dead letters at or after the start."""

    def has(self, letter: DeadLetter) -> bool:
        return (
            letter.offset < self.starts.get(letter.partition, 0)
            or (letter.partition, letter.offset) in self.beyond
        )


async def settled_letters(
    router: Router,
    topic: str,
    group: str,
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> RedrivenLetters:
    topic_id = (await router.metadata([topic])).topics[0].topic_id
    states = await share_states(router, [SharePartitionKey(group, topic_id, number) for _, number in ends])
    starts: dict[int, int] = {}
    beyond: set[tuple[int, int]] = set()
    for where, state in states.items():
        number = where.partition
        starts[number] = state.start_offset
        for one in state.covering(firsts[topic, number], ends[topic, number] - 1):
            if one.is_settled:
                beyond |= {(number, offset) for offset in range(one.first, one.last + 1)}
    return RedrivenLetters(starts, frozenset(beyond))
