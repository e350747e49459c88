"""Batches by partition: when they are sent, how they are numbered, and what becomes of them."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from kshare.errors import BrokerError, DeliveryFailed, KshareError
from kshare.producer.backlog import Backlog, PendingBatch, ProducerIdentity
from kshare.producer.batch_outcomes import BatchOutcome
from kshare.producer.records import NewRecord, PendingBlock, PendingSend, Produced
from kshare.producer.settings import WriterSettings
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.records import Batch, read_batches

REFUSED = BrokerError(ErrorCode.INVALID_RECORD, "writing to t[0]")
LOST = KshareError("the connection broke")


def backlog(*, is_transactional: bool = False, batch_bytes: int = 1000) -> Backlog:
    made = Backlog(
        WriterSettings(
            linger=1.0,
            batch_bytes=batch_bytes,
            delivery_timeout=60.0,
            transactional_id="t" if is_transactional else None,
        )
    )
    made.identity = ProducerIdentity(7, 0)
    return made


def add(backlog: Backlog, *values: bytes, partition: int = 0, now: float = 0.0) -> list[PendingSend]:
    return [backlog.add("t", partition, NewRecord(value, timestamp=5), now)[0] for value in values]


def take(backlog: Backlog, now: float = 10.0) -> tuple[PendingBatch, Batch]:
    """The only batch that is ready, and what is sent."""
    (batch,) = backlog.ready(now)
    (sent,) = read_batches(backlog.take(batch))
    return batch, sent


def stamp(sent: Batch) -> tuple[int, int, int]:
    return sent.producer_id, sent.producer_epoch, sent.base_sequence


def test_batch_lingers_until_it_is_old_or_full_or_flushed() -> None:
    made = backlog(batch_bytes=100)
    add(made, b"a")
    assert made.ready(0.5) == []
    assert made.wake_at() == 1.0
    assert len(made.ready(1.0)) == 1
    add(made, b"b" * 60)  # begins a second batch, so the first isn't waited for
    assert len(made.ready(0.5)) == 1
    other = backlog()
    add(other, b"a")
    other.flush(other.last_number)
    assert len(other.ready(0.0)) == 1


def test_one_batch_of_a_partition_is_under_way() -> None:
    made = backlog(batch_bytes=60)
    add(made, b"a" * 30, b"b" * 30)
    add(made, b"c", partition=1)
    first, other = made.ready(10)
    assert (first.partition, other.partition) == (0, 1)
    made.take(first)
    assert made.ready(10) == [other]
    made.confirm(first, 5, -1)
    assert {batch.partition for batch in made.ready(10)} == {0, 1}


def test_confirmed_records_know_where_they_are_and_free_the_buffer() -> None:
    made = backlog()
    sends = add(made, b"a", b"b")
    batch, _ = take(made)
    assert made.size > 0
    made.confirm(batch, 41, -1)
    assert [send.result() for send in sends] == [Produced("t", 0, 41, 5), Produced("t", 0, 42, 5)]
    assert (made.size, made.oldest_number) == (0, None)
    add(made, b"c")
    batch, sent = take(made)
    assert stamp(sent) == (7, 0, 2)
    made.confirm(batch, 43, 99)


def test_retried_batch_is_the_same_and_comes_after_a_pause() -> None:
    made = backlog()
    add(made, b"a")
    batch, sent = take(made)
    made.settle(batch, BatchOutcome.RETRY_OPEN, LOST, 10.0)
    add(made, b"b")  # doesn't join what may have been written
    assert made.ready(10.0) == []
    again, resent = take(made, 12.0)
    assert (again, stamp(resent), resent.record_count) == (batch, stamp(sent), 1)


@pytest.mark.parametrize("outcome", [BatchOutcome.REFUSED, BatchOutcome.REFUSED_OPEN])
def test_number_of_a_batch_that_was_given_up_is_not_used_again(outcome: BatchOutcome) -> None:
    made = backlog(batch_bytes=60)
    add(made, b"a" * 30, b"b" * 30)
    batch, _ = take(made)
    made.settle(batch, outcome, REFUSED, 10.0)
    assert stamp(take(made)[1]) == (7, 1, 0)


def test_number_that_was_never_sent_is_used() -> None:
    made = backlog()
    add(made, b"a")
    assert made.expire(60.0)
    add(made, b"b", now=60.0)
    assert stamp(take(made, 70.0)[1]) == (7, 0, 0)


def test_refusal_is_raised_as_it_is_and_again_for_each_record() -> None:
    made = backlog()
    one, two = add(made, b"a", b"b")
    made.settle(take(made)[0], BatchOutcome.REFUSED, REFUSED, 10.0)
    caught = []
    for send in (one, two):
        with pytest.raises(BrokerError, match=r"writing to t\[0\]: INVALID_RECORD") as raised:
            send.result()
        caught.append(raised.value)
    assert caught[0] is not caught[1]
    assert caught[0].code == ErrorCode.INVALID_RECORD


def test_refusal_after_a_lost_response_is_open() -> None:
    made = backlog()
    (send,) = add(made, b"a")
    batch, _ = take(made)
    made.settle(batch, BatchOutcome.RETRY_OPEN, LOST, 10.0)
    take(made, 20.0)
    made.settle(batch, BatchOutcome.REFUSED, REFUSED, 20.0)
    with pytest.raises(DeliveryFailed, match=r"t\[0\]: the record may have been written") as raised:
        send.result()
    assert (raised.value.topic, raised.value.partition, raised.value.is_open) == ("t", 0, True)


@pytest.mark.parametrize(
    ("outcome", "is_open"), [(BatchOutcome.RETRY, False), (BatchOutcome.RETRY_OPEN, True)]
)
def test_expired_batch_says_whether_it_may_be_written(outcome: BatchOutcome, is_open: bool) -> None:
    made = backlog()
    (send,) = add(made, b"a")
    batch, _ = take(made)
    made.settle(batch, outcome, LOST, 59.99)
    assert not made.expire(59.99)
    assert made.wake_at() == 60.0
    assert made.expire(60.0)
    with pytest.raises(DeliveryFailed, match="not confirmed within 60 s: the connection broke") as raised:
        send.result()
    assert raised.value.is_open is is_open


def test_batch_under_way_does_not_expire() -> None:
    made = backlog()
    add(made, b"a")
    take(made)
    assert not made.expire(100.0)
    assert made.wake_at() == float("inf")


def test_batch_with_unexpected_number_gets_the_next_epoch() -> None:
    made = backlog()
    add(made, b"a")
    batch, _ = take(made)
    made.settle(batch, BatchOutcome.RENUMBER, REFUSED, 10.0)
    assert stamp(take(made, 20.0)[1]) == (7, 1, 0)


def test_batch_with_unexpected_number_that_may_be_written_is_given_up() -> None:
    made = backlog()
    (send,) = add(made, b"a")
    batch, _ = take(made)
    made.settle(batch, BatchOutcome.RETRY_OPEN, LOST, 10.0)
    take(made, 20.0)
    made.settle(batch, BatchOutcome.RENUMBER, REFUSED, 20.0)
    with pytest.raises(DeliveryFailed, match="may have been written"):
        send.result()


def test_large_batch_is_split_in_order_until_one_record_is_too_large() -> None:
    made = backlog()
    sends = add(made, b"a", b"b", b"c")
    add(made, b"d", now=9.0)
    made.settle(take(made)[0], BatchOutcome.SPLIT, REFUSED, 10.0)
    first, sent = take(made)
    assert ([record.value for record in sent], stamp(sent)) == ([b"a", b"b"], (7, 1, 0))
    made.confirm(first, 0, -1)
    made.settle(take(made)[0], BatchOutcome.SPLIT, REFUSED, 10.0)
    last, sent = take(made)
    assert ([record.value for record in sent], stamp(sent)) == ([b"c"], (7, 2, 0))
    made.settle(last, BatchOutcome.SPLIT, REFUSED, 10.0)
    with pytest.raises(BrokerError):
        sends[2].result()
    assert [record.value for record in take(made)[1]] == [b"d"]


def block(backlog: Backlog, *values: bytes) -> PendingBlock:
    records = [(value, None, (), 5) for value in values]
    return backlog.add_block("t", 0, records, 40 * len(values), 0.0)


def test_block_is_a_batch_of_its_own_with_one_outcome() -> None:
    made = backlog()
    before = add(made, b"a")
    pending = block(made, b"b", b"c")
    after = add(made, b"d")
    sizes = []
    for _ in range(3):
        batch, sent = take(made)
        sizes.append(([record.value for record in sent], stamp(sent)[2]))
        made.confirm(batch, 10 + stamp(sent)[2], -1)
    assert sizes == [([b"a"], 0), ([b"b", b"c"], 1), ([b"d"], 3)]
    assert pending.result() == Produced("t", 0, 11, 5)
    assert (before[0].result().offset, after[0].result().offset) == (10, 13)
    assert made.size == 0


def test_split_block_is_done_when_all_of_it_is_written() -> None:
    made = backlog()
    pending = block(made, b"a", b"b", b"c")
    made.settle(take(made)[0], BatchOutcome.SPLIT, REFUSED, 10.0)
    first, sent = take(made)
    assert ([record.value for record in sent], stamp(sent)) == ([b"a"], (7, 1, 0))
    made.confirm(first, 20, -1)
    assert not pending.is_done
    second, sent = take(made)
    assert ([record.value for record in sent], stamp(sent)) == ([b"b", b"c"], (7, 1, 1))
    made.confirm(second, 21, -1)
    assert pending.result() == Produced("t", 0, 20, 5)
    assert made.size == 0


def test_block_fails_if_any_part_of_it_does() -> None:
    made = backlog()
    pending = block(made, b"a", b"b")
    made.settle(take(made)[0], BatchOutcome.SPLIT, REFUSED, 10.0)
    made.settle(take(made)[0], BatchOutcome.REFUSED, REFUSED, 10.0)
    assert pending.is_done
    made.confirm(take(made)[0], 0, -1)
    with pytest.raises(BrokerError):
        pending.result()
    assert pending.problem


def test_failure_in_a_transaction_gives_everything_up() -> None:
    made = backlog(is_transactional=True)
    (one,) = add(made, b"a")
    (two,) = add(made, b"b", partition=1)
    batch, other = made.ready(10)
    assert stamp(next(iter(read_batches(made.take(batch))))) == (7, 0, 0)
    made.settle(batch, BatchOutcome.REFUSED_OPEN, REFUSED, 10.0)
    assert (one.is_done, two.is_done, other.is_over) == (True, True, True)
    with pytest.raises(DeliveryFailed, match=r"t\[1\]: the record was not written \(the transaction failed"):
        two.result()
    made.identity = ProducerIdentity(7, 1)
    add(made, b"c")
    assert stamp(take(made)[1]) == (7, 1, 0)


def test_used_up_epochs_need_another_producer_id() -> None:
    made = backlog()
    made.identity = ProducerIdentity(7, 2**15 - 1)
    add(made, b"a")
    made.settle(take(made)[0], BatchOutcome.REFUSED_OPEN, REFUSED, 10.0)
    assert made.identity is None
    add(made, b"b")
    assert made.ready(20.0) == []
    assert made.wake_at() == 60.0
    made.identity = ProducerIdentity(8, 0)
    assert stamp(take(made, 20.0)[1]) == (8, 0, 0)


def test_duplicate_is_written_only_if_it_may_have_been_sent_before() -> None:
    made = backlog()
    (send,) = add(made, b"a")
    batch, _ = take(made)
    made.settle(batch, BatchOutcome.DUPLICATE, REFUSED, 10.0)  # another batch has this number
    assert not send.is_done
    batch, sent = take(made, 20.0)
    assert stamp(sent) == (7, 1, 0)
    made.settle(batch, BatchOutcome.RETRY_OPEN, LOST, 20.0)
    made.settle(take(made, 30.0)[0], BatchOutcome.DUPLICATE, REFUSED, 30.0)
    assert send.result().offset == -1


def test_failure_is_told_until_its_records_are_seen() -> None:
    made = backlog()
    one, two = add(made, b"a", b"b")
    made.settle(take(made)[0], BatchOutcome.REFUSED, REFUSED, 10.0)
    with pytest.raises(BrokerError):
        one.result()
    assert isinstance(made.failures.tell(None, 0), BrokerError)
    two.is_seen = True
    assert made.failures.tell(None, 0) is None


@pytest.mark.lengthy
def test_work_for_each_batch_does_not_grow_with_the_partitions() -> None:
    """Counted in looks at a batch, because time depends on the machine."""
    made = backlog()
    for partition in range(5000):
        add(made, b"a", partition=partition, now=9.0)
    looks = 0
    look = made.expires_at

    def count(batch: PendingBatch) -> float:
        nonlocal looks
        looks += 1
        return look(batch)

    made.expires_at = count  # type: ignore[method-assign]
    for partition in range(5000, 5100):
        add(made, b"a", partition=partition, now=9.5)
        made.wake_at()
        assert made.ready(9.5) == []
        made.expire(9.5)
        assert made.oldest_number == 0
    assert looks <= 300


def test_memory_of_small_records_is_counted() -> None:
    made = backlog(batch_bytes=100_000)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(2000):
        made.add("t", 0, NewRecord(b"%d" % (number % 10), b"", (), 10**12 + number), 0.0)
    take(made)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 < made.size / (after - before) < 2


@pytest.mark.lengthy
def test_batches_that_are_over_are_forgotten() -> None:
    made = backlog()
    add(made, b"stuck", partition=1)
    stuck = made.ready(10.0)[0]
    made.take(stuck)
    for _ in range(3000):
        add(made, b"a")
        made.confirm(take(made)[0], 0, -1)
    gc.collect()
    assert sum(isinstance(object_, PendingBatch) for object_ in gc.get_objects()) < 1500
    assert made.oldest_number == 0
    assert made.unconfirmed == 1
