"""Trials: runs a handler for a record of a test, without brokers, and says what becomes of the record.

Everything from the decision whether a record may be processed to its settlement is done by `Pipeline`, as in a
running worker. What is left out comes before: acquiring, order, rate limits and the circuit breaker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio

from kshare.client.made_records import made_record
from kshare.client.record import ShareRecord
from kshare.errors import ConfigError
from kshare.producer.records import NewRecord, Produced
from kshare.surroundings import wall_time
from kshare.worker.handlers.routes import Route
from kshare.worker.host import RunningHandler
from kshare.worker.records.delivery import Delivery
from kshare.worker.records.headers import DEAD_LETTER, RETRY, Header
from kshare.worker.records.results import Result
from kshare.worker.rules.decision import Decision, RecordOutcome
from kshare.worker.rules.limits import ShareLimits
from kshare.worker.run.pipeline import Pipeline
from kshare.worker.run.slots import Slot


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

    decision: Decision
    """What the worker has decided about it, and by which rule."""
    error: Exception | None
    """What the handler raised, or why the value couldn't be converted."""
    is_timed_out: bool
    """Whether the handler was cancelled because of `time_limit`."""
    delay: float | None
    """Seconds until the next attempt; None if there is none, or if any member may make it at once."""
    attempts: int
    """How many attempts its retry policy has counted; if it was released, also the one that has just ended."""
    published: list[PublishedRecord]
    """Copies in retry topics, and dead letters."""
    results: list[PublishedRecord]
    """What the handler has published. In a batch, each trial has those of all its records."""

    @property
    def outcome(self) -> RecordOutcome:
        return self.decision.outcome

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
    among = ", ".join(route.name for route in routes if route.is_batch is is_batch) or "none"
    candidates = [route for route in routes if name in (None, route.name)]
    if sample.topic is not None:
        candidates = [
            candidate for candidate in candidates if sample.topic in candidate.matching([sample.topic]).topics
        ]
    found = [candidate for candidate in candidates if candidate.is_batch is is_batch]
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
    return [run.trial_of(delivery) for delivery in deliveries]


class _TrialRun:
    """The time of day stands still, so that delays are exact."""

    def __init__(self, route: Route) -> None:
        now = wall_time()
        self._now_ms = round(now * 1000)
        self._publications = _Publications()
        # Whether a circuit breaker opens depends on other records too.
        self._options = replace(route.options, breaker=None)
        self._route = replace(route, options=self._options, on_error=(*route.on_error, self._keep_error))
        handler = RunningHandler(
            self._route, ShareLimits(), _Standing(), clock=lambda: 0.0, wall_clock=lambda: now
        )
        self._pipeline = Pipeline(handler, self._publications)
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
        delivery = self._route.deliver(record)
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

    def trial_of(self, delivery: Delivery) -> Trial:
        decision = delivery.decided
        assert decision is not None, "it was processed"
        delay: float | None = None
        if decision.outcome in (RecordOutcome.HELD, RecordOutcome.MOVED):
            delay = decision.delay
        if decision.is_again and delivery.context is not None:
            delay = (delivery.context.due_ms - self._now_ms) / 1000
        is_attempt = decision.outcome is RecordOutcome.RELEASED or (decision.counts and not decision.apart)
        return Trial(
            decision=decision,
            error=self._errors.get(delivery),
            is_timed_out=self._is_timed_out,
            delay=delay,
            attempts=delivery.counted_attempt - (not is_attempt),
            published=self._publications.of(delivery),
            results=self._publications.results,
        )

    def _keep_error(self, delivery: Delivery, error: BaseException) -> None:
        if isinstance(error, Exception):
            self._errors[delivery] = error


class _Standing:
    """`Host` of a single call: nothing arrives, and nothing ends."""

    can_renew = True
    is_stopping = False
    is_stuck = False

    def release_unseen(self, record: ShareRecord) -> bool:
        record.release()
        return True

    def check_leases(self) -> None:
        """Its lock lasts."""

    def is_idle(self) -> bool:
        return True

    def wake(self) -> None:
        """There is one slot, and it runs."""

    def on_admission(self) -> None:
        """Nothing else is started."""

    async def look_for_limits(self) -> None:
        """They stay as they are."""


class _Publications:
    """`Publisher` that keeps what it gets."""

    def __init__(self) -> None:
        self._published: list[PublishedRecord] = []
        self.results: list[PublishedRecord] = []

    async def publish(self, topic: str, record: NewRecord, partition: int | None = None) -> Produced:
        self._published.append(_published(topic, record))
        return Produced(topic, partition or 0, len(self._published) - 1, record.timestamp)

    async def write(self, results: Sequence[Result]) -> None:
        self.results += [_published(topic, record) for topic, record, _ in results]

    async def has_later(self, topic: str, partition: int, offset: int, header: Header) -> bool:
        return False

    def of(self, delivery: Delivery) -> list[PublishedRecord]:
        """The copies of a record. They say where it was."""
        own = {"topic": delivery.topic, "partition": delivery.partition, "offset": delivery.offset}
        return [
            record
            for record in self._published
            if any(
                {(prefix + name, str(value).encode()) for name, value in own.items()} <= set(record.headers)
                for prefix in (RETRY, DEAD_LETTER)
            )
        ]


def _published(topic: str, record: NewRecord) -> PublishedRecord:
    return PublishedRecord(topic=topic, key=record.key, value=record.value, headers=list(record.headers))
