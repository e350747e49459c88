"""Defects to be planted into the producer, in memory, to see whether a simulation finds them. See `consumer_storm`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kshare.errors import CommitUnknown, DeliveryFailed
from kshare.producer import backlog, transactions
from kshare.producer.client import Producer
from kshare.producer.transaction_runner import TransactionRunner


def close_is_hasty() -> None:
    """Only the first caller of `close` waits for its end."""
    close = Producer.close

    async def close_once(producer: Any) -> None:
        background = producer._background
        if background is None or not background.is_stopping:
            await close(producer)

    _replace(Producer, "close", close_once)


def unknown_is_aborted() -> None:
    """A commit whose response was lost is told as one that failed."""
    commit = transactions.TransactionLink.commit

    async def failing(link: Any) -> None:
        try:
            await commit(link)
        except CommitUnknown as error:
            raise error.__cause__ or error from None

    _replace(transactions.TransactionLink, "commit", failing)


def failed_records_are_committed() -> None:
    """A transaction is committed though a record of it wasn't written."""

    async def commit(runner: Any, tasks: Any) -> None:
        runner._link.state.close()
        await runner._drain()
        await runner._wait_for(runner._end(tasks, runner._commit))

    _replace(TransactionRunner, "commit", commit)


def open_is_not_written() -> None:
    """What may have been written is told as not written."""

    def closed(topic: str, partition: int, reason: str, *, is_open: bool) -> DeliveryFailed:
        return DeliveryFailed(topic, partition, reason, is_open=False)

    _replace(backlog, "DeliveryFailed", closed)


def _replace(owner: Any, name: str, what: Any) -> None:
    assert hasattr(owner, name)
    setattr(owner, name, what)


DEFECTS: dict[str, tuple[Callable[[], None], str]] = {
    one.__name__: (one, kind)
    for one, kind in (
        (close_is_hasty, "broken promise"),
        (unknown_is_aborted, "transaction"),
        (failed_records_are_committed, "transaction"),
        (open_is_not_written, "contradiction"),
    )
}
