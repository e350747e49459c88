"""Runs a redrive of dead letters, or its dry run.

A redrive ends when all dead letters that existed at its start are settled or held, or when no more are delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from kshare.admin import configs, groups, offsets
from kshare.admin.configs import ConfigResource
from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router
from kshare.admin.share_states import share_states
from kshare.cli.dlq.dead_letter import DeadLetter
from kshare.cli.dlq.original_records import Missing, OriginalRecords
from kshare.cli.dlq.read import bounds, letters
from kshare.cli.dlq.redrive_records import NOWHERE, Redrive, RedriveProgress, RedriveRequest, next_batch
from kshare.cli.dlq.redriven import settled_letters
from kshare.client.consumer import ShareConsumer
from kshare.client.record import ShareRecord
from kshare.errors import BrokerError, ConfigError, KshareError
from kshare.producer.settings import WriterSettings
from kshare.producer.writer import RecordWriter
from kshare.protocol.error_codes import ErrorCode
from kshare.state.share_records import SharePartitionKey

_LIMIT = "share.delivery.count.limit"
_RESET = "share.auto.offset.reset"
_USUAL_LIMIT = 5
_FIRST_PATIENCE_S, _LONGEST_PATIENCE_S = 0.1, 2.0
_QUIET_S = 15.0
"""If nothing is delivered for so long, the redrive ends."""
_ABSENT_S = 100.0
"""The same if the group has other members: one that was killed keeps its partitions until its session ends."""
_LONGEST_LEASE_S = 86_400.0


@dataclass(frozen=True, slots=True)
class PlannedRedrive:
    """A dead letter, and the topic to which it would be redriven, or the reason why it can't be."""

    letter: DeadLetter
    target: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class RedriveOutcome:
    progress: RedriveProgress
    is_complete: bool
    """False if some dead letters that existed at the start weren't delivered."""
    problem: str | None
    """The error that ended it early."""


async def plan_redrive(
    router: Router, topic: str, group: str, request: RedriveRequest
) -> list[PlannedRedrive]:
    """What a redrive by this group would do now. Changes nothing."""
    firsts, ends = await bounds(router, topic)
    _require_letters(topic, request, firsts, ends)
    settled = await settled_letters(router, topic, group, firsts, ends)
    firsts = {where: max(first, settled.starts.get(where[1], 0)) for where, first in firsts.items()}
    originals = OriginalRecords(router)
    found: list[PlannedRedrive] = []
    async for letter in letters(router, topic, firsts, ends):
        if settled.has(letter) or not request.selection.wants(letter):
            continue
        if request.most is not None and sum(one.reason is None for one in found) >= request.most:
            break
        found.append(await _planned(letter, request, originals))
    return found


async def _planned(letter: DeadLetter, request: RedriveRequest, originals: OriginalRecords) -> PlannedRedrive:
    target = request.destination(letter)
    if target is None:
        return PlannedRedrive(letter, None, NOWHERE.reason)
    record = await originals.record(letter)
    return PlannedRedrive(letter, target, record.reason if isinstance(record, Missing) else None)


async def redrive(
    router: Router,
    options: Mapping[str, Any],
    topic: str,
    group: str,
    request: RedriveRequest,
    on_progress: Callable[[RedriveProgress], None],
) -> RedriveOutcome:
    """However it ends, dead letters whose copies are confirmed are settled, and the others are released."""
    firsts, ends = await bounds(router, topic)
    _require_letters(topic, request, firsts, ends)
    if request.target is not None:
        await router.metadata([request.target])
    limit = await _prepare(router, group)
    writer = RecordWriter(router, WriterSettings.confirming(router.limit))
    run = Redrive(request, OriginalRecords(router), writer, ends, limit, on_progress)
    problem, is_complete = None, False
    try:
        async with (
            writer,
            ShareConsumer(
                **options,
                group=group,
                topics=[topic],
                acknowledgement="explicit",
                max_lease_seconds=_LONGEST_LEASE_S,
            ) as consumer,
        ):
            is_complete = await _consume(router, consumer, run, ends, group)
            refused = [error for error in (await consumer.commit()).values() if error is not None]
            problem = (
                f"some dead letters couldn't be settled and will be redelivered: {refused[0]}"
                if refused
                else None
            )
    except KshareError as error:
        problem = str(error)
    return RedriveOutcome(run.progress, is_complete, problem)


def _require_letters(
    topic: str,
    request: RedriveRequest,
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> None:
    missing = [
        f"{partition}:{offset}"
        for partition, offset in sorted(request.selection.places)
        if not firsts.get((topic, partition), 0) <= offset < ends.get((topic, partition), 0)
    ]
    if missing:
        raise ConfigError(f"topic {topic} has no dead letter {', '.join(missing)}")


async def _prepare(router: Router, group: str) -> int:
    """Make the group start at the earliest dead letter. Returns its delivery count limit."""
    settings = {one.name: one for one in await configs.describe(router, ConfigResource.GROUP, group)}
    if settings[_RESET].value == "latest":
        await configs.alter(router, ConfigResource.GROUP, group, {_RESET: "earliest"}, is_trial=False)
    limit = settings.get(_LIMIT)
    return int(limit.value) if limit is not None and limit.value else _USUAL_LIMIT


async def _consume(
    router: Router,
    consumer: ShareConsumer[ShareRecord],
    run: Redrive,
    ends: Mapping[TopicPartition, int],
    group: str,
) -> bool:
    quiet_since, patience = anyio.current_time(), _FIRST_PATIENCE_S
    while not run.is_full:
        batch = await next_batch(consumer, patience)
        if batch is not None:
            before = run.progress.seen
            await run.take(batch)
            if run.progress.seen > before:
                quiet_since, patience = anyio.current_time(), _FIRST_PATIENCE_S
                continue
        if await _is_done(router, group, ends, run.held):
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
    if any(one.start_offset is not None and one.lag is None for one in group_offsets):
        return await _open_by_state(router, group, ends) <= held
    firsts = await log_offsets(router, ends, EARLIEST)
    now = await log_offsets(router, ends, LATEST)
    unsettled = 0
    for one in group_offsets:
        where = (one.topic, one.partition)
        # Brokers write no start offset before the first dead letter is settled.
        lag = now[where] - firsts[where] if one.start_offset is None else one.lag or 0
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
        one.size
        for where, key in keys.items()
        if key in states
        for one in states[key].covering(firsts[where], ends[where] - 1)
        if not one.is_settled
    )


def check_target(topic: str, target: str | None) -> None:
    if target == topic:
        raise ConfigError(f"--to {topic} is the dead-letter topic itself: name another topic")
