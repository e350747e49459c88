"""Any responses, lost and late ones too: what is said of a record is so, whatever a broker did with it.

A record that is confirmed is in the log, once, where its result says. One that "was not written" is never in the log.
"""

from __future__ import annotations

from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kshare.errors import BrokerError, DeliveryFailed, KshareError
from kshare.producer.backlog import Backlog, PendingBatch, ProducerIdentity
from kshare.producer.batch_outcomes import BatchOutcome, outcome_of
from kshare.producer.records import NewRecord, PendingSend
from kshare.producer.settings import WriterSettings
from kshare.protocol.error_codes import ErrorCode
from tests.fakes.model_log import ModelLog, Refused

PARTITIONS = 2

BEFORE = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]
"""Errors that a broker may give without appending."""
AFTER = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
]
"""Errors that a broker may give after it has appended, while it waits for the other replicas."""
LOST = KshareError("the connection broke")


class Producing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.backlog = Backlog(WriterSettings(linger=0.0, delivery_timeout=60.0))
        self.backlog.identity = ProducerIdentity(7, 2**15 - 3)  # two epochs are left
        self.identities = 7
        self.logs = [ModelLog() for _ in range(PARTITIONS)]
        self.sends: list[tuple[bytes, PendingSend]] = []
        self.late: list[tuple[int, bytes]] = []
        """Requests that nobody waits for any more, and that a broker may still get."""

    @rule(partition=st.integers(0, PARTITIONS - 1), count=st.integers(1, 4))
    def enqueue(self, partition: int, count: int) -> None:
        for _ in range(count):
            value = b"%d" % len(self.sends)
            self.sends.append((value, self.backlog.add("t", partition, NewRecord(value), self.now)[0]))

    @rule()
    def the_response_says_what_happened(self) -> None:
        for batch, log, payload in self._requests():
            try:
                offset, _ = log.append(payload)
            except Refused as refused:
                self._response(batch, refused.code)
            else:
                log.committed = log.end
                self._response(batch, ErrorCode.NONE, offset)

    @rule()
    def a_duplicate_is_reported_without_an_offset(self) -> None:
        for batch, log, payload in self._requests():
            try:
                offset, is_known = log.append(payload)
            except Refused as refused:
                self._response(batch, refused.code)
            else:
                log.committed = log.end
                code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER if is_known else ErrorCode.NONE
                self._response(batch, code, -1 if is_known else offset)

    @rule(code=st.sampled_from(AFTER))
    def an_error_follows_the_append(self, code: ErrorCode) -> None:
        for batch, log, payload in self._requests():
            try:
                log.append(payload)
            except Refused as refused:
                self._response(batch, refused.code)
            else:
                self._response(batch, code)

    @rule(code=st.sampled_from(BEFORE))
    def it_is_refused_before_it_is_appended(self, code: ErrorCode) -> None:
        for batch, _, _ in self._requests():
            self._response(batch, code)

    @rule(is_appended=st.booleans())
    def the_response_is_lost(self, is_appended: bool) -> None:
        for batch, log, payload in self._requests():
            if is_appended:
                with suppress(Refused):
                    log.append(payload)
            else:
                self.late.append((batch.partition, payload))
            self.backlog.settle(batch, BatchOutcome.RETRY_OPEN, LOST, self.now)

    @rule()
    def there_is_no_connection(self) -> None:
        for batch, _, _ in self._requests():
            self.backlog.settle(batch, BatchOutcome.RETRY, LOST, self.now)

    @precondition(lambda self: self.late)
    @rule(which=st.integers(0))
    def a_late_request_arrives(self, which: int) -> None:
        self._deliver(self.late.pop(which % len(self.late)))

    @rule(partition=st.integers(0, PARTITIONS - 1), where=st.integers(0))
    def another_broker_leads(self, partition: int, where: int) -> None:
        log = self.logs[partition]
        log.cut(log.ends[where % len(log.ends)])

    @rule(seconds=st.sampled_from([0.5, 10.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        while self.backlog.expire(self.now):
            pass

    @invariant()
    def a_used_up_producer_id_is_replaced(self) -> None:
        if self.backlog.identity is None:
            self.identities += 1
            self.backlog.identity = ProducerIdentity(self.identities, 0)

    @invariant()
    def what_is_said_is_so(self) -> None:
        written = [log.values for log in self.logs]
        for value, send in self.sends:
            if not send.is_done:
                continue
            count = sum(values.count(value) for values in written)
            try:
                produced = send.result()
            except DeliveryFailed as failed:
                assert failed.is_open or count == 0, f"{value!r} was written: {failed}"
            except BrokerError as refused:
                assert count == 0, f"{value!r} was written: {refused}"
            else:
                assert count == 1, f"{value!r} is confirmed, and {count} times in the log: {produced}"
                at = written[produced.partition].index(value)
                assert produced.offset in (-1, at), f"{value!r} is at {at}: {produced}"

    @invariant()
    def confirmed_records_are_in_order(self) -> None:
        last = [-1] * PARTITIONS
        for value, send in self.sends:
            if send.is_done and not send.problem:
                partition = send.result().partition
                at = self.logs[partition].values.index(value)
                assert at > last[partition], f"{value!r} is at {at}, behind {last[partition]}"
                last[partition] = at

    @invariant()
    def the_buffer_is_counted_right(self) -> None:
        if self.backlog.oldest_number is None:
            assert self.backlog.size == 0

    def teardown(self) -> None:
        self.backlog.give_up_all(KshareError("closed"))
        for response in self.late:
            self._deliver(response)
        assert all(send.is_done for _, send in self.sends)
        self.what_is_said_is_so()

    def _requests(self) -> list[tuple[PendingBatch, ModelLog, bytes]]:
        self.now += 2.0  # longer than any pause
        batches = self.backlog.ready(self.now)
        return [(batch, self.logs[batch.partition], self.backlog.take(batch)) for batch in batches]

    def _response(self, batch: PendingBatch, code: ErrorCode, offset: int = -1) -> None:
        outcome = outcome_of(code, is_transactional=False)
        if outcome is BatchOutcome.WRITTEN:
            self.backlog.confirm(batch, offset, -1)
        else:
            self.backlog.settle(batch, outcome, BrokerError(code, "writing to t"), self.now)

    def _deliver(self, late: tuple[int, bytes]) -> None:
        partition, payload = late
        with suppress(Refused):
            self.logs[partition].append(payload)


TestProducing = Producing.TestCase
TestProducing.settings = settings(max_examples=300, stateful_step_count=30)
