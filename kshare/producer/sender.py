"""Sends batches: finds out which are ready, sends each to the leader of its partition, and takes down the outcome.

One task finds out what is ready, and starts another one for each request. There is one request with a partition at a
time, so its records are written in order. What errors mean is decided in `outcomes`, what happens to a batch in
`backlog`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from kshare.admin.routing import Router
from kshare.errors import (
    BrokerError,
    ConnectionLost,
    EncodeError,
    KshareError,
    ProducerFenced,
    RequestTimedOut,
    UnreadableResponse,
)
from kshare.net.connection import Connection
from kshare.net.permissions import Right, missing_right, refusal
from kshare.producer.backlog import Backlog, PendingBatch
from kshare.producer.batch_outcomes import BatchOutcome, outcome_of
from kshare.producer.settings import WriterSettings
from kshare.producer.topics import WrittenTopics
from kshare.producer.transaction_state import Transaction
from kshare.producer.transactions import TransactionLink
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ProduceRequest, ProduceResponse
from kshare.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kshare.protocol.messages.produce_response import PartitionProduceResponse

_ALL_REPLICAS = -1
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_PURPOSE = "produce"
_REQUEST_BYTES = 8 * 1024 * 1024
_EXPLICIT_TRANSACTIONS = 11
"""The last version of Produce that expects AddPartitionsToTxn before."""
_SHORTEST_WAIT_S = 0.001
_IDENTIFYING_PAUSE_S = 1.0


class BatchSender:
    """Sends what is in `backlog`, while `run` runs."""

    def __init__(self, router: Router, settings: WriterSettings) -> None:
        self.topics = WrittenTopics(router)
        self.link = TransactionLink(router, settings)
        self.backlog = Backlog(settings)
        self.fatal: KshareError | None = None
        """Why nothing can be written any more."""
        self._router = router
        self._tasks: TaskGroup | None = None
        self._wake = anyio.Event()
        self._progress = anyio.Event()
        self._refreshing: set[str] = set()
        self._is_identifying = False

    async def identify(self) -> None:
        self.backlog.identity = await self.link.identify()

    async def _identify_again(self) -> None:
        """The epochs of the producer id are used up. Meanwhile batches wait, until they expire."""
        try:
            await self.identify()
        except KshareError as error:
            is_transient = isinstance(error, ConnectionLost | RequestTimedOut)
            if not is_transient and not (isinstance(error, BrokerError) and error.is_retriable):
                self.stop(error)
            await anyio.sleep(_IDENTIFYING_PAUSE_S)
        finally:
            self._is_identifying = False
            self._wake.set()

    def wake(self) -> None:
        """There may be something to send."""
        self._wake.set()

    async def wait_for_progress(self) -> None:
        """Wait until the outcome of another batch is known."""
        await self._progress.wait()

    def stop(self, error: KshareError) -> None:
        """Nothing is written any more."""
        self.fatal = self.fatal or error
        self.give_up_all(error)

    def give_up_idle(self, error: KshareError) -> None:
        """Give up what isn't under way, and tell those who wait for it."""
        self.backlog.give_up_idle(error)
        self._advance()

    def give_up_all(self, error: KshareError) -> None:
        """Give up what is under way, too: it may have been written."""
        self.backlog.give_up_all(error)
        self._advance()

    def _advance(self) -> None:
        self._progress.set()
        self._progress = anyio.Event()
        self._wake.set()

    # --- what to send

    async def run(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        while True:
            self._wake = anyio.Event()
            now = anyio.current_time()
            if self.backlog.expire(now):
                self._advance()
            if self.backlog.identity is None and not self._is_identifying:
                self._is_identifying = True
                tasks.start_soon(self._identify_again)
            for node, batches in self._requests(self.backlog.ready(now), now):
                self._begin(node, batches, now)
            with anyio.CancelScope(deadline=self.backlog.wake_at()):
                await self._wake.wait()
            await checkpoint()

    def _requests(
        self, batches: Iterable[PendingBatch], now: float
    ) -> Iterator[tuple[int, list[PendingBatch]]]:
        """Which batches to send together, and to which node."""
        shares: dict[int, list[list[PendingBatch]]] = defaultdict(lambda: [[]])
        sizes: dict[int, int] = defaultdict(int)
        """Of the last request to each node."""
        for batch in batches:
            leader = self._leader(batch)
            if leader is None:
                self.backlog.postpone(batch, now, batch.problem or "the partition has no leader")
                self._refresh(batch.topic)
                continue
            requests = shares[leader]
            if requests[-1] and sizes[leader] + batch.size > _REQUEST_BYTES:
                requests.append([])
                sizes[leader] = 0
            requests[-1].append(batch)
            sizes[leader] += batch.size
        for node, requests in shares.items():
            for request in requests:
                yield node, request

    def _leader(self, batch: PendingBatch) -> int | None:
        topic = self.topics.known(batch.topic)
        if topic is not None and not topic.is_stale and self.topics.is_old(topic):
            topic.looked_up_at = anyio.current_time()  # once, whether that succeeds or not
            self._refresh(batch.topic)
        leader = -1 if topic is None or topic.is_stale else topic.leaders.get(batch.partition, -1)
        return leader if leader >= 0 else None

    def _refresh(self, topic: str) -> None:
        if topic not in self._refreshing and self._tasks is not None:
            self._refreshing.add(topic)
            self._tasks.start_soon(self._look_up, topic)

    async def _look_up(self, topic: str) -> None:
        try:
            await self.topics.refresh(topic)
        except (ConnectionLost, RequestTimedOut):
            pass  # the batches are tried again until they expire
        except KshareError as error:
            if not isinstance(error, BrokerError) or not error.is_retriable or error.code in _UNKNOWN:
                self.backlog.give_up_topic(topic, error)
                self._advance()
        finally:
            self._refreshing.discard(topic)
            self._wake.set()

    # --- requests

    def _begin(self, node: int, batches: list[PendingBatch], now: float) -> None:
        assert self._tasks is not None, "it runs"
        payloads = [self.backlog.take(batch) for batch in batches]
        deadline = min(self.backlog.expires_at(batch) for batch in batches)
        limit = min(self._router.pool.settings.request_timeout, max(deadline - now, _SHORTEST_WAIT_S))
        transaction = self.link.state.current
        self._tasks.start_soon(self._send, node, batches, payloads, limit, transaction)

    async def _send(
        self,
        node: int,
        batches: list[PendingBatch],
        payloads: list[bytes],
        limit: float,
        transaction: Transaction | None,
    ) -> None:
        deadline = anyio.current_time() + limit
        outcome = BatchOutcome.RETRY
        try:
            if self.link.name is not None:
                await self.link.add(transaction, ((batch.topic, batch.partition) for batch in batches))
            connection = await self._router.pool.connection(node, purpose=_PURPOSE, timeout=limit)
            if self.link.name is not None:
                self.link.require(transaction)  # its batches must not get into the next one
            outcome = BatchOutcome.RETRY_OPEN
            response = await self._ask(connection, self._request(batches, payloads, limit), deadline)
        except ProducerFenced as error:
            self._settle(batches, BatchOutcome.REFUSED, error)
            self.stop(error)
        except (ConnectionLost, RequestTimedOut, UnreadableResponse) as error:
            self._forget_leaders(batches)
            self._settle(batches, outcome, error)
        except EncodeError as error:  # before anything was sent
            self._settle(batches, BatchOutcome.REFUSED, error)
        except KshareError as error:
            is_open = outcome is BatchOutcome.RETRY_OPEN
            self._settle(batches, BatchOutcome.REFUSED_OPEN if is_open else BatchOutcome.REFUSED, error)
        else:
            self._on_response(batches, response)
        self._advance()

    async def _ask(self, connection: Connection, request: ProduceRequest, deadline: float) -> ProduceResponse:
        version = connection.version_for(ProduceRequest)
        if self.link.name is not None:
            version = min(version, _EXPLICIT_TRANSACTIONS)
        remaining = max(deadline - anyio.current_time(), _SHORTEST_WAIT_S)
        return await connection.ask(request, version=version, timeout=remaining)

    def _request(self, batches: list[PendingBatch], payloads: list[bytes], limit: float) -> ProduceRequest:
        rows: dict[str, TopicProduceData] = {}
        for batch, payload in zip(batches, payloads, strict=True):
            if batch.topic not in rows:
                topic = self.topics.known(batch.topic)
                assert topic is not None, "its leader is known"
                rows[batch.topic] = TopicProduceData(batch.topic, topic.topic_id)
            rows[batch.topic].partition_data.append(PartitionProduceData(batch.partition, payload))
        timeout_ms = max(1, int(limit * 1000))
        return ProduceRequest(self.link.name, _ALL_REPLICAS, timeout_ms, list(rows.values()))

    def _on_response(self, batches: list[PendingBatch], response: ProduceResponse) -> None:
        results = {
            (topic.name or self.topics.name_of(topic.topic_id), row.index): row
            for topic in response.responses
            for row in topic.partition_responses
        }
        for batch in batches:
            row = results.get((batch.topic, batch.partition))
            if row is None:
                problem = KshareError("the broker's response doesn't mention the partition")
                self._settle([batch], BatchOutcome.RETRY_OPEN, problem)
            else:
                self._on_result(batch, row)

    def _on_result(self, batch: PendingBatch, row: PartitionProduceResponse) -> None:
        if batch.is_over:
            return  # given up meanwhile
        outcome = outcome_of(row.error_code, is_transactional=self.link.name is not None)
        if outcome is BatchOutcome.WRITTEN and row.base_offset < 0:
            problem = KshareError("the broker's response has neither an error nor an offset")
            self._settle([batch], BatchOutcome.RETRY_OPEN, problem)
        elif outcome is BatchOutcome.WRITTEN:
            self.backlog.confirm(batch, row.base_offset, row.log_append_time_ms)
        elif outcome is BatchOutcome.FENCED:
            error = self.link.fenced(row.error_code)
            self._settle([batch], BatchOutcome.REFUSED, error)
            self.stop(error)
        else:
            if outcome in (BatchOutcome.RETRY, BatchOutcome.RETRY_OPEN):
                self._forget_leaders([batch])
            self._settle([batch], outcome, self._error(batch, row))

    def _settle(self, batches: Iterable[PendingBatch], outcome: BatchOutcome, error: KshareError) -> None:
        now = anyio.current_time()
        for batch in batches:
            if not batch.is_over:
                self.backlog.settle(batch, outcome, error, now)

    def _forget_leaders(self, batches: Iterable[PendingBatch]) -> None:
        for batch in batches:
            topic = self.topics.known(batch.topic)
            if topic is not None:
                topic.is_stale = True

    def _error(self, batch: PendingBatch, row: PartitionProduceResponse) -> BrokerError:
        action = f"writing to {batch.place}"
        right = missing_right(row.error_code, [Right("Write", "topic", batch.topic)])
        if right is not None:
            return refusal(row.error_code, action, right, self._router.pool.settings)
        return BrokerError(row.error_code, action, row.error_message)
