"""Passes events to a consumer's observers, and summarizes log messages that may occur for each record.

Decides nothing. An observer that raises is logged, and otherwise ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from kshare.engine.consumer_metrics import ConsumerMetrics
from kshare.engine.events import (
    Acknowledged,
    Acquired,
    Damaged,
    Event,
    Fetched,
    Observer,
    OnSettled,
    Refused,
    Responded,
)
from kshare.errors import KshareError
from kshare.protocol.error_codes import error_name
from kshare.protocol.message import Message, Request
from kshare.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse
from kshare.protocol.messages.share_fetch_response import ShareFetchResponse
from kshare.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kshare.state.session import AckRange
from kshare.summary_log import SummaryLog
from kshare.surroundings import monotonic

log = logging.getLogger("kshare.client")


class Reporter:
    """`is_on`: whether there is an observer, so that events have to be created.

    `log` summarizes messages that may occur for each record or request. It is closed together with the consumer.
    """

    def __init__(
        self,
        observer: Observer | None = None,
        on_settled: OnSettled | None = None,
        *,
        group: str = "",
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.log = SummaryLog(log, group, clock)
        self.metrics: ConsumerMetrics | None = None
        """Counts what is pushed to the brokers, if they take it."""
        self._observer = observer
        self._on_settled = on_settled
        self.is_on = observer is not None
        self.wants_outcomes = self.is_on or on_settled is not None

    def report(self, event: Event) -> None:
        if self._observer is not None:
            self._call("the observer", self._observer, event)
        if self._on_settled is not None and isinstance(event, Acknowledged):
            self._call("on_settled", self._on_settled, event)

    def responded(
        self, request: Request[Any], node: int | None, seconds: float, response: Message | KshareError
    ) -> None:
        """Report a request and its response or error."""
        if self.metrics is not None and isinstance(response, Message):
            self._measure(self.metrics, seconds, response)
        if self.is_on:
            code = getattr(response, "error_code", 0)
            failure = error_name(code) if code else None
            if isinstance(response, KshareError):
                failure = type(response).__name__
            self.report(Responded(request.NAME.removesuffix("Request"), node, seconds, failure))

    def fetched(
        self, node: int, response: ShareFetchResponse, name_of: Callable[[bytes], str | None]
    ) -> None:
        """Report the contents of a fetch response."""
        records = size = 0
        for row in response.responses:
            for data in row.partitions:
                for acquired in data.acquired_records:
                    records += acquired.last_offset - acquired.first_offset + 1
                size += len(data.records or b"")
        if self.metrics is not None and response.responses:
            self.metrics.on_fetched(records, size)
        if not self.is_on:
            return
        for row in response.responses:
            topic = name_of(row.topic_id) or row.topic_id.hex()
            for data in row.partitions:
                for code in {data.error_code, data.acknowledge_error_code} - {0}:
                    self.report(Refused("ShareFetch", topic, data.partition_index, error_name(code)))
                for acquired in data.acquired_records:
                    count = acquired.last_offset - acquired.first_offset + 1
                    self.report(Acquired(topic, data.partition_index, count, acquired.delivery_count))
        if records:
            self.report(Fetched(node, records, size))

    def acknowledged(
        self, response: ShareAcknowledgeResponse, name_of: Callable[[bytes], str | None]
    ) -> None:
        """Report refused acknowledgements."""
        for row in response.responses if self.is_on else ():
            topic = name_of(row.topic_id) or row.topic_id.hex()
            for data in row.partitions:
                if data.error_code:
                    error = error_name(data.error_code)
                    self.report(Refused("ShareAcknowledge", topic, data.partition_index, error))

    def ignored(self, topic: str, partition: int, reason: str) -> None:
        """Report a part of a response that is ignored because it is invalid."""
        self.log.event(logging.ERROR, f"{topic}[{partition}]: invalid response, partly ignored", reason)
        self.report(Damaged(topic, partition, 0, reason))

    def settled(self, acknowledged: Iterable[AckRange], error: KshareError | None) -> None:
        """Count acknowledgements that were confirmed, refused, or have an open outcome."""
        if self.metrics is not None:
            records = sum(last - first + 1 for first, last, _ in acknowledged)
            self.metrics.on_acknowledged(records, is_refused=error is not None)

    def assigned(self) -> None:
        """Count a change of the assignment."""
        if self.metrics is not None:
            self.metrics.on_rebalance()

    def _measure(self, metrics: ConsumerMetrics, seconds: float, response: Message) -> None:
        if isinstance(response, ShareFetchResponse):
            metrics.on_fetch(seconds, response.throttle_time_ms)
        elif isinstance(response, ShareGroupHeartbeatResponse):
            metrics.on_heartbeat(seconds)

    def _call(
        self, name: str, function: Callable[[Acknowledged], None] | Observer, event: Acknowledged | Event
    ) -> None:
        try:
            function(event)  # type: ignore[arg-type]
        except Exception:
            cause = f"{name} raised at {type(event).__name__}, which has no effect"
            self.log.event(logging.ERROR, cause, has_traceback=True)
