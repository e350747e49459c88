"""Appends to one partition as the only writer: a newer writer with the same name fences this one.

A producer with a transactional id gets the same producer id as the last one with that name, and a higher epoch. As soon
as the partition has a batch of the higher epoch, its leader refuses batches of lower ones. That holds for batches
outside of transactions, too, so an append costs one request; committing a transaction takes several, and about a tenth
of a second.

Coordinators forget a transactional id that hasn't been claimed for `transactional.id.expiration.ms` (7 days by
default), and then give the next writer another producer id, which fences nobody. So a writer claims its name again
every ten minutes, which fails if a newer writer has claimed it.

An append is repeated with the same sequence number until its deadline, so it is in the log once. If its outcome is
unknown by then, this writer refuses further appends, because a later one could come before the unknown one.
"""

from __future__ import annotations

from collections.abc import Iterable

from kshare.admin.expected_rows import expected_row
from kshare.admin.routing import ResponseError, Router, response_error
from kshare.errors import BrokerError, KshareError, ProducerFenced
from kshare.net.permissions import Right
from kshare.producer.backlog import ProducerIdentity
from kshare.producer.batch_outcomes import BatchOutcome, is_fencing, outcome_of
from kshare.producer.records import NewRecord
from kshare.producer.settings import WriterSettings
from kshare.producer.transactions import TransactionLink
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ProduceRequest, ProduceResponse
from kshare.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kshare.protocol.record_builder import BatchBuilder
from kshare.surroundings import wall_time

_ALL_REPLICAS = -1
_MAY_BE_WRITTEN = {BatchOutcome.RETRY_OPEN, BatchOutcome.REFUSED_OPEN}
_CLAIM_S = 600.0
_UNKNOWN_S = 10.0
"""How long a topic may be unknown before it counts as deleted."""


class FencedWriter:
    """Call `claim` first. One task at a time may append. `name` is the transactional id."""

    def __init__(self, router: Router, name: str, topic: str, partition: int = 0) -> None:
        self._router = router
        self._name = name
        self._topic = topic
        self._partition = partition
        self._link = TransactionLink(router, WriterSettings(transactional_id=name))
        self._identity: ProducerIdentity | None = None
        self._sequence = 0
        self._claimed_at = 0.0
        self._failure: KshareError | None = None
        self._found: tuple[int, bytes] | None = None
        """The partition's leader and the topic's id."""
        self.topic_id: bytes | None = None
        """That of the first append: a topic that is created again lacks what was appended, so it gets nothing."""

    async def claim(self) -> None:
        """Get the next epoch. Older writers are fenced by the first append after this."""
        claimed_at = wall_time()  # not a monotonic clock: that may stand still while the machine is suspended
        self._identity = await self._link.identify()
        self._claimed_at = claimed_at
        self._sequence = 0

    async def append(self, records: Iterable[NewRecord]) -> int:
        """Write these records as one batch, confirmed by all in-sync replicas. Returns the offset of the first."""
        if self._failure is not None:
            raise self._failure
        assert self._identity is not None, "claimed before"
        if abs(wall_time() - self._claimed_at) > _CLAIM_S:
            await self._claim_again()
        builder = BatchBuilder(
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=self._sequence,
        )
        count = 0
        for value, key, headers, timestamp in records:
            builder.append(value, key=key, headers=headers, timestamp=timestamp)
            count += 1
        payload = bytes(builder.build())
        may_be_written = False

        async def step(deadline: float) -> int:
            nonlocal may_be_written
            found = self._found or await self._router.leader(self._topic, self._partition, deadline)
            leader, topic_id = found
            if self.topic_id not in {None, topic_id}:
                raise KshareError(f"topic {self._topic} was deleted and created again")
            rows = [TopicProduceData(self._topic, topic_id, [PartitionProduceData(self._partition, payload)])]
            timeout_ms = int(1000 * self._router.pool.settings.request_timeout)
            request = ProduceRequest(None, _ALL_REPLICAS, timeout_ms, rows)
            self._found = None  # looked up again if this fails
            before, may_be_written = may_be_written, True
            try:
                response = await self._router.ask(leader, request, self._errors_of, deadline)
            except BrokerError as error:
                may_be_written = before or outcome_of(error.code, is_transactional=True) in _MAY_BE_WRITTEN
                raise
            self._found, self.topic_id = found, topic_id
            return self._written_at(response)

        try:
            written_at = await self._router.retry(step, unknown_s=_UNKNOWN_S)
        except BaseException as error:
            if isinstance(error, BrokerError) and is_fencing(error.code):
                self._failure = self._fenced(error.code)
            elif isinstance(error, KshareError) and not may_be_written:
                self._failure = error
                raise
            else:
                self._failure = KshareError(
                    f"it isn't known whether an append to {self._topic}[{self._partition}] was written: "
                    f"{str(error) or 'it was cancelled'}"
                )
            if isinstance(error, KshareError):
                raise self._failure from error
            raise
        self._sequence += count
        return written_at

    async def _claim_again(self) -> None:
        try:
            await self.claim()
        except ProducerFenced as error:
            self._failure = self._fenced(error.code)
            raise self._failure from None

    def _written_at(self, response: ProduceResponse) -> int:
        where = f"{self._topic}[{self._partition}]"
        topic = expected_row(response.responses, "Produce", where)
        return expected_row(topic.partition_responses, "Produce", where).base_offset

    def _errors_of(self, response: ProduceResponse) -> Iterable[ResponseError | None]:
        for topic in response.responses:
            for row in topic.partition_responses:
                if row.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    action = f"writing to {self._topic}[{self._partition}]"
                    yield response_error(row, action, Right("Write", "topic", self._topic))

    def _fenced(self, code: int) -> ProducerFenced:
        return ProducerFenced(code, f"transactional id {self._name}", "a newer writer has this id")
