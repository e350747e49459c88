"""Reads the dead letters of a topic as a member of the share group that keeps track of them.

A run ends when all dead letters that existed at its start are settled or held, when it has all that it wants, or when
no more are delivered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio

from kshare.admin import configs, groups, offsets
from kshare.admin.configs import ConfigResource
from kshare.admin.expected_starts import RESET
from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router
from kshare.admin.share_states import share_states
from kshare.client.consumer import ShareConsumer, source_of
from kshare.client.record import ShareBatch, ShareRecord
from kshare.dead_letters.letter_run import LetterRun, ProgressT, RunOutcome, Start
from kshare.dead_letters.letter_states import LetterStates, is_default_group, readable_states
from kshare.dead_letters.moving import LetterMover
from kshare.dead_letters.read import bounds, count_given_up, require_letters
from kshare.dead_letters.selection import Selection
from kshare.errors import BrokerError, ConfigError, KshareError
from kshare.producer.settings import WriterSettings
from kshare.producer.writer import RecordWriter
from kshare.protocol.error_codes import ErrorCode
from kshare.state.share_records import SharePartitionKey
from kshare.wording import shell_word

_LIMIT = "share.delivery.count.limit"
_LEAST_LIMIT = 5
"""With fewer deliveries, runs would soon have dead letters archived that they don't settle."""
_KAFKAS_LIMIT = 5
"""Kafka's default, for brokers that don't tell a group's limit."""
_FIRST_PATIENCE_S, _LONGEST_PATIENCE_S = 0.1, 2.0
_QUIET_S = 15.0
"""If nothing is delivered for this many seconds, the run ends."""
_ABSENT_S = 100.0
"""The same if the group has other members: one that was killed keeps its partitions until its session ends."""
_FULL_S = 5.0
"""The same if it has all that it wants, and waits only for dead letters that may have to be moved."""
_LONGEST_LEASE_S = 86_400.0
_BUFFER_BYTES = 256 * 1024 * 1024
"""More than any record has: by default, brokers accept requests of up to 100 MiB."""


async def prepare(router: Router, topic: str, group: str, selection: Selection) -> Start:
    """Prepare the group for a run. Raises ConfigError if a dead letter was chosen that can't be delivered."""
    firsts, ends = await bounds(router, topic)
    require_letters(topic, selection, firsts, ends)
    limit = await _prepare_group(router, group)
    states, given_up = await readable_states(router, topic, group, firsts, ends), 0
    if states is not None:
        _require_open(topic, group, selection, states)
        given_up = await count_given_up(router, topic, selection, states)
    settings = replace(WriterSettings.confirming(router.limit), buffer_bytes=_BUFFER_BYTES)
    writer = RecordWriter(router, settings)
    return Start(ends, writer, LetterMover(writer, limit, states), given_up, limit)


def _require_open(topic: str, group: str, selection: Selection, states: LetterStates) -> None:
    """Raises ConfigError if a dead letter was chosen that won't be delivered."""
    if selection.places and all(states.is_settled(place) for place in selection.places):
        raise ConfigError(
            f"group {group} has settled these dead letters of topic {topic} already: they were redriven, "
            "dropped, given up, or moved to the end of the topic"
        )
    if lost := sorted(states.given_up & selection.places):
        places = ", ".join(f"{partition}:{offset}" for partition, offset in lost)
        raise ConfigError(
            f"group {group} has given up dead letter {places} of topic {topic}: it has reached the group's delivery "
            "count limit. Name another group to keep track"
        )


async def settle(
    router: Router,
    options: Mapping[str, Any],
    topic: str,
    group: str,
    start: Start,
    run: LetterRun[ProgressT],
) -> RunOutcome[ProgressT]:
    """However it ends, dead letters that the run has accepted are settled, and the others are released."""
    run.progress.given_up = start.given_up
    is_complete, problem = False, None
    try:
        async with (
            start.writer,
            ShareConsumer(
                **options,
                group=group,
                topics=[topic],
                acknowledgement="explicit",
                max_lease_seconds=_LONGEST_LEASE_S,
            ) as consumer,
        ):
            source_of(consumer).set_delivery_limit(start.delivery_limit)
            is_whole = await _consume(router, consumer, run, group)
            refused = [error for error in (await consumer.commit()).values() if error is not None]
        is_complete = is_whole
        if refused:
            problem = (
                "the broker hasn't confirmed that all dead letters were settled; others are redelivered: "
                f"{refused[0]}"
            )
    except KshareError as error:
        problem = str(error)
    return RunOutcome(run.progress, is_complete, problem or run.problem)


async def _prepare_group(router: Router, group: str) -> int:
    """Make a new group start at the earliest dead letter, with as many deliveries as brokers allow.

    Every run delivers all letters, and releases those that weren't chosen. Returns the delivery count limit.
    Settings of a group that isn't ours are its users' business: raises ConfigError if they don't suit.
    """
    settings = {setting.name: setting for setting in await configs.group_config(router, group)}
    limit = settings.get(_LIMIT)
    if limit is not None and limit.source == "group" and int(limit.value or _KAFKAS_LIMIT) < _LEAST_LIMIT:
        raise ConfigError(
            f"group {group} has {_LIMIT}={limit.value}: runs also deliver dead letters that aren't chosen, and these "
            "would soon be archived. Raise it: "
            f"kshare groups config set {shell_word(group)} {_LIMIT}={_LEAST_LIMIT}"
        )
    highest = limit.highest if limit is not None and limit.source != "group" else None
    if settings[RESET].value == "latest":
        if not is_default_group(group) and await _exists(router, group):
            raise ConfigError(
                f"group {group} exists, and starts at the latest record ({RESET}=latest), so it may not get older dead "
                "letters. Its settings aren't changed: name a new group, or let it start at the first record: "
                f"kshare groups config set {shell_word(group)} {RESET}=earliest"
            )
        changes = {RESET: "earliest", **({_LIMIT: highest} if highest else {})}
        await configs.alter(router, ConfigResource.GROUP, group, changes, is_trial=False)
        if highest:
            return int(highest)
    return int(limit.value) if limit is not None and limit.value else _KAFKAS_LIMIT


async def _exists(router: Router, group: str) -> bool:
    """A group that only has settings doesn't."""
    try:
        await groups.describe_share_group(router, group)
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return False
    return True


async def _consume(
    router: Router,
    consumer: ShareConsumer[ShareRecord],
    run: LetterRun[ProgressT],
    group: str,
) -> bool:
    quiet_since, patience = anyio.current_time(), _FIRST_PATIENCE_S
    while not run.is_over:
        batch = await _next_batch(consumer, patience)
        if batch is not None:
            before = run.progress.seen, run.held
            await run.take(batch, consumer.commit)
            if (run.progress.seen, run.held) != before:
                quiet_since, patience = anyio.current_time(), _FIRST_PATIENCE_S
                continue
        if await _is_done(router, group, run.ends, run.held):
            return True
        if run.is_full and anyio.current_time() - quiet_since > _FULL_S:
            return True
        patience = min(2 * patience, _LONGEST_PATIENCE_S)
        other_members = len((await groups.describe_share_group(router, group)).members) - 1
        if other_members != run.progress.waits_for:
            quiet_since = anyio.current_time()  # partitions are being reassigned
        run.wait_for(other_members)
        if anyio.current_time() - quiet_since > (_ABSENT_S if other_members > 0 else _QUIET_S):
            return False
    return True


async def _is_done(router: Router, group: str, ends: Mapping[TopicPartition, int], held: int) -> bool:
    """Whether all dead letters that existed at the start are settled, except those that we hold."""
    try:
        group_offsets = await offsets.share_group_offsets(router, group, {topic: None for topic, _ in ends})
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return not any(ends.values())
    if any(offset.start_offset is not None and offset.lag is None for offset in group_offsets):
        return await _open_by_state(router, group, ends) <= held
    firsts = await log_offsets(router, ends, EARLIEST)
    now = await log_offsets(router, ends, LATEST)
    unsettled = 0
    for offset in group_offsets:
        where = (offset.topic, offset.partition)
        # Brokers write no start offset before the first dead letter is settled.
        lag = now[where] - firsts[where] if offset.start_offset is None else offset.lag or 0
        unsettled += max(0, lag - (now[where] - ends[where]))
    return unsettled <= held


async def _open_by_state(router: Router, group: str, ends: Mapping[TopicPartition, int]) -> int:
    """The number of unsettled dead letters, for brokers that don't report the lag (Kafka 4.1)."""
    firsts = await log_offsets(router, ends, EARLIEST)
    topic = next(iter(ends))[0]
    topic_id = (await router.metadata([topic])).topics[0].topic_id
    keys = {where: SharePartitionKey(group, topic_id, where[1]) for where in ends}
    states = await share_states(router, keys.values())
    return sum(
        span.size
        for where, key in keys.items()
        if key in states
        for span in states[key].covering(firsts[where], ends[where] - 1)
        if not span.is_settled
    )


async def _next_batch(consumer: ShareConsumer[ShareRecord], patience_s: float) -> ShareBatch | None:
    """The next batch; None if none arrived in that time."""
    with anyio.move_on_after(patience_s):
        return await consumer.next_batch()
    return None
