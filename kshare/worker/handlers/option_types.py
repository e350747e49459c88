"""Generated: options of handlers and workers, as type checkers and editors see them.

Written by `python -m tools.options` from the dataclass in worker/handlers/options.py: change them there.
"""

from collections.abc import Callable
from typing import TypedDict

from kshare.client.options import ClientOptions
from kshare.worker.handlers.inspection import RunsIn
from kshare.worker.handlers.options import DeadLetterFunction, OversizedDeadLetters
from kshare.worker.handlers.order import Order
from kshare.worker.records.delivery import Delivery
from kshare.worker.rules.adaptive import Adaptive
from kshare.worker.rules.breaker import Breaker
from kshare.worker.rules.retry import Retry
from kshare.worker.rules.retry_topics import RetryTopics


class HandlerSettings(TypedDict, total=False):
    """Options of a handler. Durations are seconds.

    Options: group, concurrency, priority, retry, time_limit, dead_letters, dead_letters_after, oversized_dead_letters,
    retry_topics, hold_up_to, max_held, max_pinned, move_runs, order, runs_in, rate_limit, breaker, only, batch_size,
    batch_wait.
    """

    group: str
    """The share group of the handler. Handlers of different groups each get all records. Default: ""."""
    concurrency: int | Adaptive
    """How many records are processed at once. `Adaptive(...)`: the number with the best throughput. Default: 10."""
    priority: int
    """While a handler with a higher priority has records to process, and its `rate_limit` allows that, handlers with a
    lower priority start none. This applies to the handlers of one worker. Default: 0."""
    retry: Retry
    """What happens when the handler raises. Default: Retry()."""
    time_limit: float
    """How long the handler may take for one record, or one batch. After that it is cancelled, and the record released.
    The record's lock is renewed meanwhile (Kafka 4.2 and later). Default: 300.0."""
    dead_letters: str | DeadLetterFunction | None
    """The topic for records that are rejected or no longer retried. Or an async function that gets the delivery and the
    reason, and keeps the record; if it raises, the record is held, and the function is called again later. None: such
    records are only rejected; brokers since Kafka 4.4 can write dead letters by themselves."""
    dead_letters_after: float | None
    """A record that was written longer ago than this is no longer processed, whether it is new or retried: it becomes a
    dead letter, or is rejected without `dead_letters`. None: age doesn't matter."""
    oversized_dead_letters: OversizedDeadLetters
    """What happens to records that are larger than `max.message.bytes` of the dead-letter topic. "hold": they are held
    until it is raised. "reject": they are rejected without a dead letter, which is logged as an error. "truncate":
    their value is truncated, and a header says so. Default: "hold"."""
    retry_topics: RetryTopics | bool
    """Whether records are moved to retry topics for longer delays, so that they don't pin the in-flight window of their
    partition. True: `RetryTopics()`, which has delays of 1 minute, 10 minutes and 1 hour. Default: False."""
    hold_up_to: float
    """With retry topics, delays up to this are still held by the worker. Default: 30.0."""
    max_held: int
    """How many records the worker may hold for their next attempt. Beyond that, the oldest are moved to a retry topic,
    or retried early. Default: 10_000."""
    max_pinned: float
    """The fraction of a share-partition's in-flight window that a held record may pin. Beyond that, it is moved to a
    retry topic, or retried early. Default: 0.5."""
    move_runs: bool
    """Whether a record whose handler takes long is moved out of the way when it pins more than `max_pinned`: it is
    copied to the shortest retry topic and accepted, and its handler continues. Needs `retry_topics`, and Kafka 4.2 or
    later. Default: False."""
    order: Order
    """"key": records with the same key are processed one after another, in the order of their offsets, unless they are
    redelivered or moved to a retry topic. A function of the record: the same for records with the same result. This
    applies to the whole group only if each partition is read by one member, so the topic needs at least as many
    partitions as the group has members. Default: "none"."""
    runs_in: RunsIn | None
    """Where a plain function runs: "thread" (the default) or "process". Async functions always run in the event loop
    ("loop")."""
    rate_limit: float | None
    """The maximum number of records per second for the handler."""
    breaker: Breaker | None
    """When to stop acquiring because most runs fail. None: never. Default: Breaker()."""
    only: Callable[[Delivery], bool] | None
    """A function that selects the records for the handler. All others are accepted without it."""
    batch_size: int
    """For batch handlers: how many records a batch has at most. Default: 100."""
    batch_wait: float
    """For batch handlers: how long to wait for a full batch, counted from its first record. Default: 0.1."""


class WorkerOptions(HandlerSettings, ClientOptions, total=False):
    """Options of a worker: how to connect, and defaults for its handlers."""
