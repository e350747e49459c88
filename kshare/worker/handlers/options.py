"""The options of a handler, checked and complete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from kshare.admin.config import OPTIONS as CONNECTION_OPTIONS
from kshare.client.config import OPTIONS as CONSUMER_OPTIONS
from kshare.client.kafka_names import KAFKA_NAMES, dotted
from kshare.options.checks import require_flag, require_seconds, require_whole
from kshare.options.mistakes import Mistakes
from kshare.options.refusals import why_refused
from kshare.options.unknown import no_option
from kshare.wording import nearest_name
from kshare.worker.handlers.inspection import RunsIn
from kshare.worker.handlers.order import Order, check_order
from kshare.worker.records.delivery import Delivery
from kshare.worker.rules.adaptive import Adaptive, check_concurrency
from kshare.worker.rules.age import check_age
from kshare.worker.rules.breaker import Breaker, check_breaker
from kshare.worker.rules.giving_up import check_dead_letters, check_oversized
from kshare.worker.rules.rate_limit import check_rate
from kshare.worker.rules.record_filter import check_filter
from kshare.worker.rules.retry import Retry, check_retry
from kshare.worker.rules.retry_topics import RetryTopics, check_retry_topics
from kshare.worker.rules.window import check_max_pinned

OversizedDeadLetters = Literal["hold", "reject", "truncate"]
DeadLetterFunction = Callable[[Delivery, str], Awaitable[None]]
LONGEST_LEASE_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerOptions:
    """Durations are in seconds. A worker's `defaults` have the same options."""

    group: str = ""
    """The share group of the handler. Handlers of different groups each get all records."""
    concurrency: int | Adaptive = 10
    """How many records are processed at once. `Adaptive(...)`: the number with the best throughput."""
    priority: int = 0
    """While a handler with a higher priority has records to process, and its `rate_limit` allows that, handlers with a
    lower priority start none. This applies to the handlers of one worker."""
    retry: Retry = field(default_factory=Retry)
    """What happens when the handler raises."""
    time_limit: float = 300.0
    """How long the handler may take for one record, or one batch. After that it is cancelled, and the record released.
    The record's lock is renewed meanwhile (Kafka 4.2 and later)."""
    dead_letters: str | DeadLetterFunction | None = None
    """The topic for records that are rejected or no longer retried. Or an async function that gets the delivery and
    the reason, and keeps the record; if it raises, the record is held, and the function is called again later. None:
    such records are only rejected; brokers since Kafka 4.4 can write dead letters by themselves."""
    dead_letters_after: float | None = None
    """A record that was written longer ago than this is no longer processed, whether it is new or retried: it becomes
    a dead letter, or is rejected without `dead_letters`. None: age doesn't matter."""
    oversized_dead_letters: OversizedDeadLetters = "hold"
    """What happens to records that are larger than `max.message.bytes` of the dead-letter topic. "hold": they are held
    until it is raised. "reject": they are rejected without a dead letter, which is logged as an error. "truncate":
    their value is truncated, and a header says so."""
    retry_topics: RetryTopics | bool = False
    """Whether records are moved to retry topics for longer delays, so that they don't pin the in-flight window of their
    partition. True: `RetryTopics()`, which has delays of 1 minute, 10 minutes and 1 hour."""
    hold_up_to: float = 30.0
    """With retry topics, delays up to this are still held by the worker."""
    max_held: int = 10_000
    """How many records the worker may hold for their next attempt. Beyond that, the oldest are moved to a retry topic,
    or retried early."""
    max_pinned: float = 0.5
    """The fraction of a share-partition's in-flight window that a held record may pin. Beyond that, it is moved to a
    retry topic, or retried early."""
    move_runs: bool = False
    """Whether a record whose handler takes long is moved out of the way when it pins more than `max_pinned`: it is
    copied to the shortest retry topic and accepted, and its handler continues. Needs `retry_topics`, and Kafka 4.2 or
    later."""
    order: Order = "none"
    """"key": records with the same key are processed one after another, in the order of their offsets, unless they are
    redelivered or moved to a retry topic. A function of the record: the same for records with the same result. This
    applies to the whole group only if each partition is read by one member, so the topic needs at least as many
    partitions as the group has members."""
    runs_in: RunsIn | None = None
    """Where a plain function runs: "thread" (the default) or "process". Async functions always run in the event
    loop ("loop")."""
    rate_limit: float | None = None
    """The maximum number of records per second for the handler."""
    breaker: Breaker | None = field(default_factory=Breaker)
    """When to stop acquiring because most runs fail. None: never."""
    only: Callable[[Delivery], bool] | None = None
    """A function that selects the records for the handler. All others are accepted without it."""
    batch_size: int = 100
    """For batch handlers: how many records a batch has at most."""
    batch_wait: float = 0.1
    """For batch handlers: how long to wait for a full batch, counted from its first record."""

    def __post_init__(self) -> None:
        """Raises ConfigError with all mistakes."""
        mistakes = Mistakes()
        if not isinstance(self.group, str):
            mistakes.add(f"group must be a text, not {self.group!r}")
        if type(self.priority) is not int:
            mistakes.add(f"priority must be a whole number, not {self.priority!r}")
        for name in ("max_held", "batch_size"):
            with mistakes:
                require_whole(name, getattr(self, name), 1, 1_000_000)
        for name in ("time_limit", "hold_up_to", "batch_wait"):
            with mistakes:
                require_seconds(name, getattr(self, name), LONGEST_LEASE_S)
        with mistakes:
            require_flag("move_runs", self.move_runs)
        if self.move_runs is True and self.retry_topics is False:
            mistakes.add("move_runs needs retry topics: write retry_topics=True")
        for name, check in _CHECKS.items():
            with mistakes:
                check(getattr(self, name))
        mistakes.raise_all()

    @property
    def most_at_once(self) -> int:
        return self.concurrency.most if isinstance(self.concurrency, Adaptive) else self.concurrency

    @property
    def tiers(self) -> RetryTopics | None:
        """The retry topics, if there are any."""
        if isinstance(self.retry_topics, RetryTopics):
            return self.retry_topics
        return RetryTopics() if self.retry_topics else None


_CHECKS: dict[str, Callable[[object], None]] = {
    "concurrency": check_concurrency,
    "retry": check_retry,
    "dead_letters": check_dead_letters,
    "dead_letters_after": check_age,
    "oversized_dead_letters": check_oversized,
    "retry_topics": check_retry_topics,
    "max_pinned": check_max_pinned,
    "order": check_order,
    "rate_limit": check_rate,
    "breaker": check_breaker,
    "only": check_filter,
}
"""Of the options of policies. Each policy has a file."""
_OF_BATCHES = ("batch_size", "batch_wait")
WORKER_OPTIONS = ("drain_timeout", "http", "announce", "announce_url")
"""Options of workers that are neither those of handlers nor those of connections."""


_NEEDED_BY = {"move_runs": "retry_topics"}


def check_options(
    options: Mapping[str, Any], defaults: Mapping[str, Any] | None = None, *, is_batch: bool = True
) -> None:
    """Raises ConfigError with all mistakes of names and values. Defaults have been checked before."""
    mistakes = Mistakes()
    with mistakes:
        check_names(options, is_batch=is_batch)
    with mistakes:
        HandlerOptions(**(dict(defaults or {}) | checkable(options, is_batch=is_batch)))
    mistakes.raise_all()


def checkable(
    options: Mapping[str, Any], wrong: Iterable[str] = (), *, is_batch: bool = True
) -> dict[str, Any]:
    """The options of handlers whose values can be checked, although others of them are wrong or don't exist.

    This leaves out what needs an option that is meant by such a name: that it is missing is no further mistake.
    """
    names = HandlerOptions.__dataclass_fields__
    others = () if is_batch else _OF_BATCHES
    wrong = [*wrong, *others, *(name for name in options if name not in names)]
    meant = {nearest_name(name, names) for name in wrong}
    return {
        name: value
        for name, value in options.items()
        if name in names and name not in wrong and _NEEDED_BY.get(name) not in meant
    }


def check_names(options: Iterable[str], *, is_batch: bool = True) -> None:
    """Raises ConfigError for names that aren't options of handlers, or only of the other kind of handler."""
    mistakes = Mistakes()
    names = [field.name for field in fields(HandlerOptions)]
    for name in options:
        if name in _OF_BATCHES and not is_batch:
            mistakes.add(f"{name} is for batch handlers: write batch_handler, or leave it out")
        elif name not in names:
            mistakes.add(why_refused(name, "handler") or no_option(name, names, sorted(names)))
    mistakes.raise_all()


def check_connection_names(options: Iterable[str]) -> None:
    """Raises ConfigError for names that aren't options of connections, in our names or in Kafka's."""
    mistakes = Mistakes()
    ours = [*(field.name for field in fields(HandlerOptions)), *WORKER_OPTIONS, *CONNECTION_OPTIONS]
    for name in options:
        if name in CONNECTION_OPTIONS or name in CONSUMER_OPTIONS or dotted(name) in KAFKA_NAMES:
            continue
        known = ours if nearest_name(name, ours) else KAFKA_NAMES
        mistakes.add(why_refused(name, "handler") or no_option(name, known))
    mistakes.raise_all()
