"""The options of a handler, checked and complete."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Literal, get_args

from kshare.admin.config import OPTIONS as CONNECTION_OPTIONS
from kshare.callbacks import is_async, require_callback, require_plain
from kshare.client.config import OPTIONS as CONSUMER_OPTIONS
from kshare.client.kafka_names import KAFKA_NAMES, dotted
from kshare.client.record import ShareRecord
from kshare.errors import ConfigError
from kshare.protocol.topic_names import require_topic_name
from kshare.worker.handlers.inspection import RunsIn
from kshare.worker.records.delivery import Delivery
from kshare.worker.rules.adaptive import Adaptive
from kshare.worker.rules.age import require_age
from kshare.worker.rules.breaker import Breaker
from kshare.worker.rules.option_checks import require_number, require_seconds
from kshare.worker.rules.retry import Retry
from kshare.worker.rules.retry_topics import RetryTopics

Order = Literal["none", "key"] | Callable[[ShareRecord], Hashable]
OversizedDeadLetters = Literal["hold", "reject", "truncate"]
DeadLetterFunction = Callable[[Delivery, str], Awaitable[None]]
LONGEST_LEASE_S = 86_400.0
_COUNTS = ("concurrency", "max_held", "batch_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerOptions:
    """Durations are in seconds. A worker's `defaults` have the same options."""

    group: str = ""
    """The share group of the handler. Handlers of different groups each get all records."""
    concurrency: int | Adaptive = 10
    """How many records are processed at once. `Adaptive(...)`: the number with the best throughput."""
    priority: int = 0
    """While a handler with a higher priority has records to process that its `rate_limit` allows, those with a lower
    one start none. This applies to the handlers of one worker."""
    retry: Retry = field(default_factory=Retry)
    """What happens when the handler raises."""
    time_limit: float = 300.0
    """How long the handler may take for one record, or one batch. After that it is cancelled, and the record released.
    The record's lock is renewed meanwhile (Kafka 4.2 and later)."""
    dead_letters: str | DeadLetterFunction | None = None
    """The topic for records that are rejected or not retried any more. Or an async function that gets the delivery and
    the reason, and keeps the record; if it raises, the record is held, and the function called again later. None: such
    records are only rejected; brokers since Kafka 4.4 can write dead letters by themselves."""
    dead_letters_after: float | None = None
    """A record that was written longer ago than this is no longer processed, whether it is new or retried: it becomes
    a dead letter, or is rejected without `dead_letters`. None: age doesn't matter."""
    oversized_dead_letters: OversizedDeadLetters = "hold"
    """What becomes of records that are larger than `max.message.bytes` of the dead-letter topic. "hold": they are held
    until it is raised. "reject": they are rejected without a dead letter, which is logged as an error. "truncate":
    their value is cut, and a header says so."""
    retry_topics: RetryTopics | bool = False
    """Whether records are moved to retry topics for longer delays, so that they don't pin the in-flight window of their
    partition. True: `RetryTopics()`, which has delays of 1 minute, 10 minutes and 1 hour."""
    hold_up_to: float = 30.0
    """With retry topics, delays up to this are still held by the worker."""
    max_held: int = 10_000
    """How many records the worker may hold for their next attempt. Beyond that, the oldest have to go: to a retry
    topic, or into their next attempt early."""
    max_pinned: float = 0.5
    """The fraction of a share-partition's in-flight window that a held record may pin before it has to go."""
    move_runs: bool = False
    """Whether a record whose handler takes long is moved out of the way, when it pins that much: it is copied to the
    shortest retry topic and accepted, and its handler continues. Needs `retry_topics`, and Kafka 4.2 or later."""
    order: Order = "none"
    """"key": records with the same key are processed one after another, in the order of their offsets, unless they are
    redelivered or moved to a retry topic. A function of the record: those with the same result are. This holds in the
    whole group only if each partition is read by one member, so the topic needs at least as many partitions as the
    group has members."""
    runs_in: RunsIn | None = None
    """Where a plain function runs: "thread" (the default) or "process". Async functions always run in the event
    loop ("loop")."""
    rate_limit: float | None = None
    """How many records a second the handler gets at most."""
    breaker: Breaker | None = field(default_factory=Breaker)
    """When to stop acquiring because most runs fail. None: never."""
    only: Callable[[Delivery], bool] | None = None
    """A function that selects the records for the handler. All others are accepted without it."""
    batch_size: int = 100
    """For batch handlers: how many records a batch has at most."""
    batch_wait: float = 0.1
    """For batch handlers: how long to wait for a full batch, counted from its first record."""

    def __post_init__(self) -> None:
        for name in ("max_held", "batch_size") if isinstance(self.concurrency, Adaptive) else _COUNTS:
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= 1_000_000:
                raise ConfigError(f"{name} must be a whole number from 1 to 1,000,000, not {value!r}")
        for name in ("time_limit", "hold_up_to", "batch_wait"):
            require_seconds(name, getattr(self, name), LONGEST_LEASE_S)
        require_age(self.dead_letters_after)
        require_number("max_pinned", self.max_pinned, 0.001, 1)
        if not isinstance(self.move_runs, bool):
            raise ConfigError(f"move_runs must be True or False, not {self.move_runs!r}")
        if self.move_runs and self.tiers is None:
            raise ConfigError("move_runs needs retry topics: write retry_topics=True")
        if self.order not in ("none", "key") and not callable(self.order):
            raise ConfigError(f'order must be "none", "key" or a function of the record, not {self.order!r}')
        if self.oversized_dead_letters not in get_args(OversizedDeadLetters):
            raise ConfigError(
                'oversized_dead_letters must be "hold", "reject" or "truncate", not '
                f"{self.oversized_dead_letters!r}"
            )
        for name, kind in (
            ("group", str),
            ("retry", Retry),
            ("breaker", Breaker | None),
            ("retry_topics", RetryTopics | bool),
        ):
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"{name} must be {_KINDS[name]}, not {getattr(self, name)!r}")
        if self.rate_limit is not None:
            require_number("rate_limit", self.rate_limit, 0.001, 1_000_000)
        if type(self.priority) is not int:
            raise ConfigError(f"priority must be a whole number, not {self.priority!r}")
        if not (
            self.dead_letters is None or isinstance(self.dead_letters, str) or callable(self.dead_letters)
        ):
            raise ConfigError(f"dead_letters must be a topic or an async function, not {self.dead_letters!r}")
        if isinstance(self.dead_letters, str):
            require_topic_name("dead_letters", self.dead_letters)
        if callable(self.dead_letters):
            require_callback("dead_letters", self.dead_letters, "two arguments, the delivery", "the reason")
            if not (is_async(self.dead_letters) or is_async(inspect.unwrap(self.dead_letters))):
                raise ConfigError("dead_letters must be an async function, not a plain one")
        if self.only is not None:
            require_plain("only", self.only, "one argument, the delivery")
        if callable(self.order):
            require_plain("order", self.order, "one argument, the record")

    @property
    def most_at_once(self) -> int:
        return self.concurrency.most if isinstance(self.concurrency, Adaptive) else self.concurrency

    @property
    def tiers(self) -> RetryTopics | None:
        """The retry topics, if there are any."""
        if isinstance(self.retry_topics, RetryTopics):
            return self.retry_topics
        return RetryTopics() if self.retry_topics else None


_NOT_FOR_SHARE_GROUPS = {
    "enable_auto_commit": "share groups have no offsets to commit: each record is acknowledged separately",
    "auto_commit": "share groups have no offsets to commit: each record is acknowledged separately",
    "commit_offsets": "share groups have no offsets to commit: each record is acknowledged separately",
    "manual_offset_management": "share groups have no offsets to commit: each record is acknowledged separately",
    "seek": "a share group has no position: change its start offsets with `kshare groups reset-offsets`",
    "auto_offset_reset": "it is a setting of the group: share.auto.offset.reset, see `kshare groups config`",
    "group_instance_id": "share groups have no static membership: any member can continue where another stopped",
    "static_membership": "share groups have no static membership: any member can continue where another stopped",
    "on_rebalance": "share groups don't rebalance: several members may read a partition, and none loses records",
    "partition_assignment_strategy": "brokers assign the partitions of share groups",
    "max_poll_interval": "share groups have no such limit: use time_limit for the handler",
    "isolation_level": "it is a setting of the group: share.isolation.level",
}


_KINDS = {
    "group": "a text",
    "retry": "a Retry, such as Retry(attempts=5)",
    "breaker": "a Breaker, such as Breaker(), or None",
    "retry_topics": "True, False or a RetryTopics, such as RetryTopics(tiers=(60, 600))",
}
_OF_BATCHES = ("batch_size", "batch_wait")
WORKER_OPTIONS = ("drain_timeout", "http", "announce", "announce_url")
"""Options of workers that are neither those of handlers nor those of connections."""


def check_names(options: Iterable[str], *, is_batch: bool = True) -> None:
    """Raises ConfigError for names that aren't options of handlers, or only of the other kind of handler."""
    names = [one.name for one in fields(HandlerOptions)]
    for name in options:
        if name in _OF_BATCHES and not is_batch:
            raise ConfigError(f"{name} is for batch handlers: write batch_handler, or leave it out")
        if name not in names:
            check_name(name)
            close = get_close_matches(name, names, 1)
            hint = f"did you mean {close[0]}?" if close else f"handlers have {', '.join(sorted(names))}"
            raise ConfigError(f"unknown option {name}: {hint}")


def check_name(name: str) -> None:
    """Raises ConfigError, with the reason, for options that have no meaning in share groups."""
    reason = _NOT_FOR_SHARE_GROUPS.get(name.replace(".", "_").removesuffix("_ms"))
    if reason:
        raise ConfigError(f"{name} has no meaning here: {reason}")


def check_connection_names(options: Iterable[str]) -> None:
    """Raises ConfigError for names that aren't options of connections, in our names or in Kafka's."""
    ours = [*(one.name for one in fields(HandlerOptions)), *WORKER_OPTIONS, *CONNECTION_OPTIONS]
    for name in options:
        check_name(name)
        if name not in CONNECTION_OPTIONS and name not in CONSUMER_OPTIONS and dotted(name) is None:
            close = get_close_matches(name, ours, 1) or get_close_matches(name, KAFKA_NAMES, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(f"there is no option {name!r}{hint}")
