"""Trials: runs a handler for a record of a test, without brokers, and says what becomes of the record.

Everything from the decision whether a record may be processed to its settlement is done by `Pipeline`, as in a
running worker. What is left out comes before: acquiring, order, rate limits and the circuit breaker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import anyio

from kshare.client.made_records import made_record, settlement_of
from kshare.client.record import ShareRecord
from kshare.errors import ConfigError
from kshare.producer.records import Produced
from kshare.worker.delivery import Delivery
from kshare.worker.group_limits import ShareLimits
from kshare.worker.headers import DEAD_LETTER, RETRY, Header, read_retry_context
from kshare.worker.pipeline import Pipeline
from kshare.worker.results import Result
from kshare.worker.routes import Route
from kshare.worker.slots import Slot
from kshare.worker.user_functions import require_ended


class TrialOutcome(StrEnum):
    """What has become of the record."""

    ACCEPTED = "accepted"
    FILTERED = "filtered"
    """Accepted without its handler, because of `only`."""
    HELD = "held"
    """Held by the worker until its next attempt."""
    MOVED = "moved"
    """Copied to a retry topic until its next attempt, and accepted."""
    DEAD_LETTER = "dead letter"
    """Copied to the topic for dead letters, or kept by the function for them, and rejected."""
    REJECTED = "rejected"
    """Given up, without a dead letter."""
    RELEASED = "released"
    """Handed back to the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """A record for a trial. All fields have defaults."""

    value: bytes | str | None = b""
    key: bytes | None = None
    headers: Sequence[Header] = ()
    topic: str | None = None
    """None: the first topic of the handler."""
    partition: int = 0
    offset: int | None = None
    """None: 0; in a batch 0, 1, 2, ..."""
    timestamp: int | None = None
    """Milliseconds since 1970. None: now."""
    delivery_count: int = 1
    """How many times the broker has delivered it."""
    attempt: int | None = None
    """Which attempt this is. None: the number of its delivery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRecord:
    """A record that the worker has written to a topic, or would have."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[Header]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What has become of a record."""

    outcome: TrialOutcome
    error: Exception | None
    """What the handler raised, or why the value couldn't be converted."""
    is_timed_out: bool
    """Whether the handler was cancelled because of `time_limit`."""
    delay: float | None
    """Seconds until the next attempt; None if there is none, or if any member may make it at once."""
    attempts: int
    """How many attempts the record has had, as its retry policy counts them."""
    published: list[PublishedRecord]
    """Copies in retry topics, and dead letters."""
    results: list[PublishedRecord]
    """What the handler has published. In a batch, each trial has those of all its records."""

    @property
    def topic(self) -> str | None:
        """Where the record was copied to."""
        return self.published[-1].topic if self.published else None


Sample = SampleRecord | bytes | str | None
"""A record, or just its value."""


def sample_record(sample: Sample) -> SampleRecord:
    made = sample if isinstance(sample, SampleRecord) else SampleRecord(value=sample)
    for name, content in (("value", made.value), ("key", made.key)):
        if not (
            content is None or isinstance(content, bytes) or (name == "value" and isinstance(content, str))
        ):
            raise ConfigError(f"{name} must be bytes or None, not {type(content).__name__}: encode it")
    return made


def route_for(routes: Sequence[Route], sample: SampleRecord, name: str | None, *, is_batch: bool) -> Route:
    """The route of a trial: that of the named handler, of the record's topic, or the only one."""
    kind = "batch handler" if is_batch else "handler"
    among = ", ".join(one.name for one in routes if one.is_batch is is_batch) or "none"
    candidates = [one for one in routes if name in (None, one.name)]
    if sample.topic is not None:
        candidates = [one for one in candidates if sample.topic in one.matching([sample.topic]).topics]
    found = [one for one in candidates if one.is_batch is is_batch]
    if len(found) == 1:
        return found[0]
    if candidates and not found:
        other = "handler of single records: call test" if is_batch else "batch handler: call test_batch"
        raise ConfigError(f"{candidates[0].name} is a {other}")
    wanted = " and ".join(
        [f"the name {name}"] * (name is not None) + [f"topic {sample.topic}"] * (sample.topic is not None)
    )
    if not found:
        what = f"there is no {kind} for {wanted}" if wanted else f"there is no {kind}"
    else:
        what = f"several are for {wanted}" if wanted else "there are several"
    raise ConfigError(f"{what}: give the topic of the record or the name of a {kind}. There are: {among}")


async def try_handler(route: Route, samples: Sequence[SampleRecord]) -> list[Trial]:
    """Run the handler once: for one record, or for all records of a batch."""
    run = _TrialRun(route)
    deliveries = [run.deliver(sample, number) for number, sample in enumerate(samples)]
    await run.run_once(deliveries)
    held = run.held()
    return [run.trial_of(one, held) for one in deliveries]


class _TrialRun:
    """The time of day stands still, so that delays are exact."""

    def __init__(self, route: Route) -> None:
        self._passed: Callable[[Delivery], bool] | None = route.options.only
        now = time.time()
        self._now_ms = round(now * 1000)
        self._publications = _Publications()
        only = None if route.options.only is None else self._is_wanted
        # Whether a circuit breaker opens depends on other records too.
        self._options = replace(route.options, breaker=None, only=only)
        self._route = replace(route, options=self._options, on_error=(*route.on_error, self._keep_error))
        self._pipeline = Pipeline(
            self._route,
            self._publications,
            ShareLimits(),
            clock=lambda: 0.0,
            wall_clock=lambda: now,
            can_renew=lambda: True,
            release_unseen=_release,
            check_leases=lambda: None,
            on_ready=lambda: None,
            on_admission=lambda: None,
        )
        self._filtered: set[Delivery] = set()
        self._errors: dict[Delivery, Exception] = {}
        self._is_timed_out = False

    def deliver(self, sample: SampleRecord, number: int) -> Delivery:
        topic = sample.topic or next(iter(self._route.topics), None)
        if topic is None:
            raise ConfigError(
                f"handler {self._route.name} has no topics, only patterns: give the topic of the record"
            )
        record = made_record(
            topic,
            sample.value.encode() if isinstance(sample.value, str) else sample.value,
            key=sample.key,
            headers=sample.headers,
            partition=sample.partition,
            offset=number if sample.offset is None else sample.offset,
            timestamp=self._now_ms if sample.timestamp is None else sample.timestamp,
            delivery_count=sample.delivery_count,
        )
        delivery = self._pipeline.deliver(record)
        if sample.attempt is not None:
            delivery.attempt = sample.attempt
        return delivery

    async def run_once(self, deliveries: list[Delivery]) -> None:
        try:
            await self._run_once(deliveries)
        finally:
            await self._pipeline.close()

    async def _run_once(self, deliveries: list[Delivery]) -> None:
        slot = Slot()
        with anyio.move_on_after(self._options.time_limit) as scope:
            slot.scope = scope
            if self._route.is_batch:
                slot.batch = [*deliveries]
                await self._pipeline.processing.batch(slot)
            else:
                slot.begin(deliveries[0], 0.0, 0)
                await self._pipeline.processing.one(slot, deliveries[0])
        if scope.cancelled_caught:
            self._is_timed_out = True
            await self._pipeline.processing.cancelled(slot)

    def held(self) -> dict[ShareRecord, tuple[float, Delivery]]:
        """Record → the delay of its next attempt, and that attempt."""
        found: dict[ShareRecord, tuple[float, Delivery]] = {}
        while (due := self._pipeline.queue.next_due) is not None:
            self._pipeline.queue.bring_due(due)
            while (item := self._pipeline.queue.next()) is not None:
                assert isinstance(item, Delivery), "only deliveries are held"
                found[item.record] = (due, item)
        return found

    def trial_of(self, delivery: Delivery, held: dict[ShareRecord, tuple[float, Delivery]]) -> Trial:
        published = self._publications.of(delivery)
        copy = read_retry_context(published[-1].headers) if published else None
        delay, attempts = None, delivery.counted_attempt
        match settlement_of(delivery.record):
            case _ if delivery.record in held:
                outcome = TrialOutcome.HELD
                delay, following = held[delivery.record]
                attempts = following.counted_attempt - 1
            case "accept" if copy is not None:
                outcome = TrialOutcome.MOVED
                delay, attempts = (copy.due_ms - self._now_ms) / 1000, copy.attempts - copy.unfinished
            case "accept" if delivery in self._filtered:
                outcome, attempts = TrialOutcome.FILTERED, attempts - 1
            case "accept":
                outcome = TrialOutcome.ACCEPTED
            case "reject":
                is_kept = self._options.dead_letters is not None
                outcome = TrialOutcome.DEAD_LETTER if is_kept else TrialOutcome.REJECTED
            case _:
                outcome = TrialOutcome.RELEASED
        return Trial(
            outcome=outcome,
            error=self._errors.get(delivery),
            is_timed_out=self._is_timed_out,
            delay=delay,
            attempts=attempts,
            published=published,
            results=self._publications.results,
        )

    def _is_wanted(self, delivery: Delivery) -> bool:
        assert self._passed is not None, "checked before"
        is_wanted = self._passed(delivery)
        require_ended(self._passed, is_wanted, "only")
        if not is_wanted:
            self._filtered.add(delivery)
        return is_wanted

    def _keep_error(self, delivery: Delivery, error: BaseException) -> None:
        if isinstance(error, Exception):
            self._errors[delivery] = error


def _release(record: ShareRecord) -> bool:
    record.release()
    return True


class _Publications:
    """`Publisher` that keeps what it gets."""

    def __init__(self) -> None:
        self._published: list[PublishedRecord] = []
        self.results: list[PublishedRecord] = []

    async def publish(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp: int,
        partition: int | None = None,
    ) -> Produced:
        self._published.append(PublishedRecord(topic=topic, key=key, value=value, headers=list(headers)))
        return Produced(topic, partition or 0, len(self._published) - 1, timestamp)

    async def write(self, results: Sequence[Result]) -> None:
        self.results += [
            PublishedRecord(
                topic=topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
            )
            for topic, record, _ in results
        ]

    async def has_later(self, topic: str, partition: int, offset: int, header: Header) -> bool:
        return False

    def of(self, delivery: Delivery) -> list[PublishedRecord]:
        """The copies of a record. They say where it was."""
        own = {"topic": delivery.topic, "partition": delivery.partition, "offset": delivery.offset}
        return [
            one
            for one in self._published
            if any(
                {(prefix + name, str(value).encode()) for name, value in own.items()} <= set(one.headers)
                for prefix in (RETRY, DEAD_LETTER)
            )
        ]
