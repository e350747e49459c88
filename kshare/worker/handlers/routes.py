"""Which handler gets the records of which topics, in which group."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from kshare.client.record import ShareRecord
from kshare.worker.handlers.inspection import HandlerCall
from kshare.worker.handlers.options import HandlerOptions
from kshare.worker.handlers.order import LaneOf, lane_function
from kshare.worker.records.delivery import Deliveries, Delivery
from kshare.worker.records.headers import RetryContext

GoOn = Callable[[], Awaitable[None]]
Middleware = Callable[[Delivery, GoOn], Awaitable[None]]
"""Gets a delivery and a function that goes on: to the next middleware, in the end to the handler."""
BatchMiddleware = Callable[[Deliveries, GoOn], Awaitable[None]]
"""The same for batch handlers."""
OnError = Callable[[Delivery, BaseException], object]


@dataclass(frozen=True, slots=True)
class Route:
    name: str
    topics: tuple[str, ...]
    call: HandlerCall
    options: HandlerOptions
    is_batch: bool = False
    patterns: tuple[re.Pattern[str], ...] = ()
    """All topics whose whole name matches one of these."""
    middleware: tuple[Middleware, ...] | tuple[BatchMiddleware, ...] = ()
    """For batch handlers, that of batches."""
    on_error: tuple[OnError, ...] = ()

    @property
    def group(self) -> str:
        return self.options.group

    @property
    def surplus(self) -> int:
        """How many records to have beyond those of `concurrency`: a batch handler waits for full batches."""
        return self.options.batch_size * self.options.most_at_once if self.is_batch else 0

    def deliver(self, record: ShareRecord, context: RetryContext | None = None) -> Delivery:
        """`context`: what the headers of a copy say."""
        return Delivery(record, self.group, self.options.retry.attempts, context)

    def delivery_of(self, item: ShareRecord | Delivery) -> Delivery:
        return item if isinstance(item, Delivery) else self.deliver(item)

    def retry_topics(self) -> list[tuple[str, ...]]:
        """The retry topics of each delay: they are consumed separately, so that long delays don't block short ones."""
        tiers = self.options.tiers
        if tiers is None:
            return []
        return [tuple(tiers.topic(topic, tier) for topic in self.topics) for tier in tiers.tiers]

    @property
    def lane_of(self) -> LaneOf | None:
        """Records with the same result are processed one after another."""
        return lane_function(self.options.order)

    def matching(self, names: Iterable[str]) -> Route:
        """With those of the existing topics that match its patterns. Topics for copies of its records don't."""
        found = sorted(name for name in names if any(pattern.fullmatch(name) for pattern in self.patterns))
        whole = replace(self, topics=tuple(dict.fromkeys([*self.topics, *found])))
        of_copies = {self.options.dead_letters}.union(*whole.retry_topics()).difference(self.topics)
        return replace(whole, topics=tuple(topic for topic in whole.topics if topic not in of_copies))
