"""Defects to plant in producers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyio.lowlevel import checkpoint

from kshare.errors import CommitUnknown, DeliveryFailed, ProducerFenced
from kshare.producer import backlog, transactions
from kshare.producer.backlog import Backlog
from kshare.producer.batch_outcomes import BatchOutcome
from kshare.producer.client import Producer
from kshare.producer.failures import Failures
from kshare.producer.transaction_runner import TransactionRunner
from kshare.producer.writer import RecordWriter
from tests.simulation.planting import Defect, nothing, replace


def close_is_hasty() -> None:
    """Only the first caller of `close` waits for its end."""
    close = Producer.close

    async def close_once(producer: Any) -> None:
        background = producer._background
        if background is None or not background.is_stopping:
            await close(producer)

    replace(Producer, "close", close_once)


def unknown_is_aborted() -> None:
    """A commit whose response was lost is told as one that failed."""
    commit = transactions.TransactionLink.commit

    async def failing(link: Any) -> None:
        try:
            await commit(link)
        except CommitUnknown as error:
            raise error.__cause__ or error from None

    replace(transactions.TransactionLink, "commit", failing)


def failed_records_are_committed() -> None:
    """A transaction is committed though a record of it wasn't written."""

    async def commit(runner: Any, tasks: Any) -> None:
        runner._link.state.close()
        await runner._drain()
        await runner._wait_for(runner._end(tasks, runner._commit))

    replace(TransactionRunner, "commit", commit)


def open_is_not_written() -> None:
    """What may have been written is told as not written."""

    def closed(topic: str, partition: int, reason: str, *, is_open: bool) -> DeliveryFailed:
        return DeliveryFailed(topic, partition, reason, is_open=False)

    replace(backlog, "DeliveryFailed", closed)


def sequences_are_used_again() -> None:
    replace(Backlog, "_begin_epoch", nothing)


def fenced_commits_succeed() -> None:
    commit = transactions.TransactionLink.commit

    async def succeed(link: Any) -> None:
        try:
            await commit(link)
        except ProducerFenced:
            pass
        except CommitUnknown as error:
            if not isinstance(error.__cause__, ProducerFenced):
                raise

    replace(transactions.TransactionLink, "commit", succeed)


def retries_get_new_numbers() -> None:
    settle = Backlog.settle

    def renumber(self: Any, batch: Any, outcome: BatchOutcome, error: Any, now: float) -> None:
        if outcome is BatchOutcome.RETRY_OPEN and not self._settings.is_transactional:
            self._begin_epoch(self._waiting[batch.topic, batch.partition])
            self._discard_payload(batch)
        settle(self, batch, outcome, error, now)

    replace(Backlog, "settle", renumber)


def flush_waits_for_one_outcome() -> None:
    async def drain(writer: Any) -> None:
        writer._push()
        if writer._backlog.unconfirmed:
            await writer._sender.wait_for_progress()

    replace(RecordWriter, "_drain", drain)


def failures_are_forgotten() -> None:
    replace(Failures, "tell", nothing)


def cancelled_calls_enqueue() -> None:
    enqueue = RecordWriter.enqueue

    async def then_wait(writer: RecordWriter, *arguments: Any) -> Any:
        send = await enqueue(writer, *arguments)
        await checkpoint()
        return send

    replace(RecordWriter, "enqueue", then_wait)


def commits_overtake_records() -> None:
    async def commit(runner: Any, tasks: Any) -> None:
        runner._link.state.close()
        await runner._wait_for(runner._end(tasks, runner._commit))

    replace(TransactionRunner, "commit", commit)


def buffers_have_no_end() -> None:
    async def wait_for_room(*arguments: Any) -> None:
        await checkpoint()

    replace(RecordWriter, "_wait_for_room", wait_for_room)


def partitions_are_ignored() -> None:
    choose = RecordWriter._choose

    def choose_any(writer: Any, found: Any, topic: str, key: Any, size: int, partition: Any) -> int:
        return choose(writer, found, topic, key, size, None)

    replace(RecordWriter, "_choose", choose_any)


def transactions_ignore_partitions() -> None:
    choose = RecordWriter._choose

    def choose_any(writer: RecordWriter, found: Any, topic: str, key: Any, size: int, partition: Any) -> int:
        is_transactional = writer._backlog._settings.is_transactional
        return choose(writer, found, topic, key, size, None if is_transactional else partition)

    replace(RecordWriter, "_choose", choose_any)


def transactions_are_reversed() -> None:
    """Batches of them, each by itself."""
    take = Backlog.take

    def take_reversed(self: Backlog, batch: backlog.PendingBatch) -> bytes:
        if self._settings.is_transactional and batch.payload is None:
            batch.records.reverse()
            batch.sends.reverse()
        return take(self, batch)

    replace(Backlog, "take", take_reversed)


def offsets_in_transactions_are_wrong() -> None:
    confirm = Backlog.confirm

    def confirm_next(self: Backlog, batch: backlog.PendingBatch, base_offset: int, append_time: int) -> None:
        is_known = self._settings.is_transactional and base_offset >= 0
        confirm(self, batch, base_offset + 1 if is_known else base_offset, append_time)

    replace(Backlog, "confirm", confirm_next)


def second_halves_are_first() -> None:
    split: Callable[[Backlog, backlog.PendingBatch], None] = vars(Backlog)["_split"]

    def swap(self: Backlog, batch: backlog.PendingBatch) -> None:
        split(self, batch)
        batches = vars(self)["_waiting"][batch.topic, batch.partition].batches
        batches[0], batches[1] = batches[1], batches[0]

    replace(Backlog, "_split", swap)


DEFECTS = [
    Defect(plant, "producers", finding, what, seed)
    for plant, finding, what, seed in (
        (close_is_hasty, "left behind", "lets only the first caller of `close` wait for its end", 29),
        (unknown_is_aborted, "transaction", "tells a commit without a response as one that failed", 22),
        (failed_records_are_committed, "transaction", "commits though a record wasn't written", 140),
        (open_is_not_written, "contradiction", "tells what may have been written as not written", 5),
        (
            sequences_are_used_again,
            "contradiction",
            "gives the number of a batch that was given up to another",
            10,
        ),
        (fenced_commits_succeed, "transaction", "takes a commit that was fenced for one that succeeded", 4),
        (retries_get_new_numbers, "contradiction", "sends a batch again with another sequence number", 5),
        (flush_waits_for_one_outcome, "broken promise", "returns from `flush` after the first outcome", 5),
        (failures_are_forgotten, "broken promise", "says nothing in `flush` of what wasn't written", 5),
        (cancelled_calls_enqueue, "contradiction", "writes records of calls that were cancelled", 110),
        (commits_overtake_records, "transaction", "commits before the records are confirmed", 1),
        (buffers_have_no_end, "broken promise", "takes more records than its buffer holds", 61),
        (partitions_are_ignored, "contradiction", "writes to another partition than it was told", 61),
        (
            transactions_ignore_partitions,
            "transaction",
            "writes in transactions to another partition than it was told",
            3,
        ),
        (transactions_are_reversed, "transaction", "writes batches of transactions in reverse order", 3),
        (offsets_in_transactions_are_wrong, "transaction", "tells wrong offsets in transactions", 3),
        (
            second_halves_are_first,
            "transaction",
            "writes the second half of a batch first that was too large",
            4,
        ),
    )
]
