"""Runs a redrive of dead letters, or its dry run.

Decides when a redrive is over: when all that was there as it began is settled or held, or nothing comes any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from kshare.admin import configs, groups, offsets
from kshare.admin.configs import Resource
from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.log_writing import LogWriter
from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router
from kshare.admin.share_states import share_states
from kshare.cli.dlq.dead_letter import Letter
from kshare.cli.dlq.original_records import Missing, Originals
from kshare.cli.dlq.read import bounds, letters
from kshare.cli.dlq.redrive_records import NOWHERE, Orders, Redrive, Tally, next_batch
from kshare.cli.dlq.redriven import settled_letters
from kshare.client.consumer import ShareConsumer
from kshare.client.record import ShareRecord
from kshare.errors import BrokerError, ConfigError, KshareError
from kshare.protocol.error_codes import ErrorCode
from kshare.state.share_records import SharePartition

_LIMIT = "share.delivery.count.limit"
_RESET = "share.auto.offset.reset"
_USUAL_LIMIT = 5
_FIRST_PATIENCE_S, _LONGEST_PATIENCE_S = 0.1, 2.0
_QUIET_S = 15.0
"""So long nothing comes before we say that nothing will."""
_ABSENT_S = 100.0
"""So long where there are other members: one that was killed keeps its partitions until its session is over."""
_LONGEST_LEASE_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Planned:
    """A letter that would be redriven, and where to; or why not."""

    letter: Letter
    target: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    tally: Tally
    is_complete: bool
    """False: letters that were there when it began haven't been seen."""
    problem: str | None
    """What ended it before its time."""


async def plan(router: Router, topic: str, group: str, orders: Orders) -> list[Planned]:
    """What a redrive by this group would do now. Reads alone."""
    firsts, ends = await bounds(router, topic)
    _require_letters(topic, orders, firsts, ends)
    settled = await settled_letters(router, topic, group, firsts, ends)
    firsts = {where: max(first, settled.starts.get(where[1], 0)) for where, first in firsts.items()}
    originals = Originals(router)
    found: list[Planned] = []
    async for letter in letters(router, topic, firsts, ends):
        if settled.has(letter) or not orders.choice.wants(letter):
            continue
        if orders.most is not None and sum(one.reason is None for one in found) >= orders.most:
            break
        found.append(await _planned(letter, orders, originals))
    return found


async def _planned(letter: Letter, orders: Orders, originals: Originals) -> Planned:
    target = orders.destination(letter)
    if target is None:
        return Planned(letter, None, NOWHERE.reason)
    record = await originals.record(letter)
    return Planned(letter, target, record.reason if isinstance(record, Missing) else None)


async def redrive(
    router: Router,
    options: Mapping[str, Any],
    topic: str,
    group: str,
    orders: Orders,
    tell: Callable[[Tally], None],
) -> Outcome:
    """Whatever ends it, what was confirmed is settled and the rest given back."""
    firsts, ends = await bounds(router, topic)
    _require_letters(topic, orders, firsts, ends)
    if orders.target is not None:
        await router.metadata([orders.target])
    limit = await _prepare(router, group)
    run = Redrive(orders, Originals(router), LogWriter(router), ends, limit, tell)
    problem, is_complete = None, False
    try:
        async with ShareConsumer(
            **options,
            group=group,
            topics=[topic],
            acknowledgement="explicit",
            max_lease_seconds=_LONGEST_LEASE_S,
        ) as consumer:
            is_complete = await _consume(router, consumer, run, ends, group)
            refused = [error for error in (await consumer.commit()).values() if error is not None]
            problem = f"some letters couldn't be settled and come again: {refused[0]}" if refused else None
    except KshareError as error:
        problem = str(error)
    return Outcome(run.tally, is_complete, problem)


def _require_letters(
    topic: str, orders: Orders, firsts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> None:
    missing = [
        f"{partition}:{offset}"
        for partition, offset in sorted(orders.choice.places)
        if not firsts.get((topic, partition), 0) <= offset < ends.get((topic, partition), 0)
    ]
    if missing:
        raise ConfigError(f"topic {topic} has no letter {', '.join(missing)}")


async def _prepare(router: Router, group: str) -> int:
    """The group begins with the first letter. How often it is handed one at most."""
    settings = {one.name: one for one in await configs.describe(router, Resource.GROUP, group)}
    if settings[_RESET].value == "latest":
        await configs.alter(router, Resource.GROUP, group, {_RESET: "earliest"}, is_trial=False)
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
            before = run.tally.seen
            await run.take(batch)
            if run.tally.seen > before:
                quiet_since, patience = anyio.current_time(), _FIRST_PATIENCE_S
                continue
        if await _is_done(router, group, ends, run.held):
            return True
        patience = min(2 * patience, _LONGEST_PATIENCE_S)
        others = len((await groups.describe_share_group(router, group)).members) - 1
        if others != run.tally.waits_for:
            quiet_since = anyio.current_time()  # partitions are dealt out anew
        run.wait_for(others)
        if anyio.current_time() - quiet_since > (_ABSENT_S if others > 0 else _QUIET_S):
            return False
    return True


async def _is_done(router: Router, group: str, ends: Mapping[TopicPartition, int], held: int) -> bool:
    """Whether all that was there is settled, but for what we hold."""
    try:
        known = await offsets.share_group_offsets(router, group, {topic: None for topic, _ in ends})
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return not any(ends.values())
    if any(one.start_offset is not None and one.lag is None for one in known):
        return await _open_by_state(router, group, ends) <= held
    firsts = await log_offsets(router, ends, EARLIEST)
    now = await log_offsets(router, ends, LATEST)
    unsettled = 0
    for one in known:
        where = (one.topic, one.partition)
        # Brokers write no start offset before the first letter is settled.
        lag = now[where] - firsts[where] if one.start_offset is None else one.lag or 0
        unsettled += max(0, lag - (now[where] - ends[where]))
    return unsettled <= held


async def _open_by_state(router: Router, group: str, ends: Mapping[TopicPartition, int]) -> int:
    """For brokers that don't tell the lag (Kafka 4.1)."""
    firsts = await log_offsets(router, ends, EARLIEST)
    topic = next(iter(ends))[0]
    topic_id = (await router.metadata([topic])).topics[0].topic_id
    places = {where: SharePartition(group, topic_id, where[1]) for where in ends}
    states = await share_states(router, places.values())
    return sum(
        one.size
        for where, place in places.items()
        if place in states
        for one in states[place].covering(firsts[where], ends[where] - 1)
        if not one.is_settled
    )


def check_target(topic: str, target: str | None) -> None:
    if target == topic:
        raise ConfigError(
            f"--to {topic} is where the letters are: each would come back as a letter of itself"
        )
