"""What the tracking group knows of dead letters: which are settled or given up, and which were delivered to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router
from kshare.admin.share_states import StateLog
from kshare.dead_letters.dead_letter import DeadLetter
from kshare.errors import NotAuthorized
from kshare.state.share_records import SharePartitionKey, StoredState

_OURS = "kshare-dlq-"


def default_group(topic: str) -> str:
    """The share group that keeps track of redriven dead letters, unless the user names another."""
    return _OURS + topic


def is_default_group(group: str) -> bool:
    """Whether it can only be a group that keeps track of dead letters."""
    return group.startswith(_OURS)


@dataclass(frozen=True, slots=True)
class LetterStates:
    """The states of a topic's dead letters in one group."""

    starts: Mapping[int, int]
    """By partition: all dead letters before this offset are settled, or were given up: brokers no longer tell."""
    beyond: frozenset[tuple[int, int]]
    """Partition and offset of dead letters at or after the start that are settled."""
    given_up: frozenset[tuple[int, int]]
    """Those that the group has archived, and doesn't deliver again: they are not settled."""
    delivered: Mapping[tuple[int, int], int]
    """How many times open dead letters were delivered to the group, if they were."""

    def has_settled(self, letter: DeadLetter) -> bool:
        """Whether it was redriven, dropped or moved; `may_have_given_up` is the exception."""
        return self.is_settled((letter.partition, letter.offset))

    def is_settled(self, place: tuple[int, int]) -> bool:
        return place[1] < self.starts.get(place[0], 0) or place in self.beyond

    def may_have_given_up(self, letter: DeadLetter) -> bool:
        """Whether a settled letter may have been given up instead."""
        return letter.offset < self.starts.get(letter.partition, 0)

    def has_given_up(self, letter: DeadLetter) -> bool:
        return (letter.partition, letter.offset) in self.given_up

    def deliveries(self, letter: DeadLetter) -> int:
        """How many times this group was given an open dead letter."""
        return self.delivered.get((letter.partition, letter.offset), 0)


async def letter_states(
    router: Router,
    topic: str,
    group: str,
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    log: StateLog | None = None,
) -> LetterStates:
    """Give the same `log` for many topics: else, each of them reads the stored states from the start."""
    topic_id = (await router.metadata([topic])).topics[0].topic_id
    wanted = [SharePartitionKey(group, topic_id, number) for _, number in ends]
    states = await (log or StateLog(router)).stored(wanted)
    starts: dict[int, int] = {}
    beyond: set[tuple[int, int]] = set()
    given_up: set[tuple[int, int]] = set()
    delivered: dict[tuple[int, int], int] = {}
    for where, state in states.items():
        number = where.partition
        starts[number] = state.start_offset
        for span in state.covering(firsts[topic, number], ends[topic, number] - 1):
            places = ((number, offset) for offset in range(span.first, span.last + 1))
            if span.state == StoredState.ARCHIVED:
                given_up.update(places)
            elif span.is_settled:
                beyond.update(places)
            elif span.deliveries:
                delivered.update((place, span.deliveries) for place in places)
    return LetterStates(starts, frozenset(beyond), frozenset(given_up), delivered)


async def readable_states(
    router: Router,
    topic: str,
    group: str,
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    log: StateLog | None = None,
) -> LetterStates | None:
    """None if we may not read them."""
    try:
        return await letter_states(router, topic, group, firsts, ends, log)
    except NotAuthorized:
        return None
