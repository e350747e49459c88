"""Transactions that fail, are cancelled or lose responses, at random. Keeps a ledger of what callers were told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import anyio

from kshare import CommitUnknown, KshareError, Producer, ProducerFenced
from tests.helpers.lost_responses import LostResponses
from tests.helpers.transaction_ledger import Ledger, Outcome, Told

TOPIC, PARTITIONS = "orders", 3
_LONGEST_S = 0.15
"""The latest moment of a transaction at which it is cancelled."""


_LIMIT_S, _LAST_LIMIT_S = 1.5, 60.0


class TransactionStorm:
    """One producer, one transaction after another. With asyncio, it uses that library's own cancellations too."""

    def __init__(self, bootstrap: str, seed: int, *, name: str = "storm", is_asyncio: bool = True) -> None:
        self.ledger = Ledger()
        self.lost: dict[str, int] = {}
        self._bootstrap = bootstrap
        self._random = Random(seed)
        self._name = name
        self._ways: list[Callable[[Producer, Told], Any]] = [self._write, self._fail, self._in_scope]
        if is_asyncio:
            self._ways += [self._in_task, self._in_timeout]
        self._current: Told | None = None
        self._numbers = 0

    async def run(self, transactions: int, rate: float) -> None:
        """Ends with a producer that loses nothing, so that no transaction is left open."""
        async with anyio.create_task_group() as tasks:
            lost = LostResponses(self._random, tasks, rate)
            with lost.active():
                while len(self.ledger.transactions) < transactions:
                    with suppress(KshareError):  # it couldn't be opened
                        await self._write_with_one_producer(transactions)
            self.lost = dict(lost.lost)
        async with self._open(_LAST_LIMIT_S):
            pass

    @property
    def is_fenced_for_nothing(self) -> bool:
        """AddPartitionsToTxn that is executed late, after its transaction was ended, lets InitProducerId fence us."""
        return self.ledger.fenced > self.lost.get("AddPartitionsToTxnRequest executed later", 0)

    def _open(self, limit: float) -> Producer:
        return Producer(
            self._bootstrap,
            transactional_id=f"kshare-{self._name}",
            request_timeout=limit,
            delivery_timeout=limit,
            close_timeout=limit,
        )

    async def _write_with_one_producer(self, transactions: int) -> None:
        async with self._open(_LIMIT_S) as producer, anyio.create_task_group() as tasks:
            tasks.start_soon(self._write_besides, producer)
            try:
                while len(self.ledger.transactions) < transactions:
                    await self._transaction(producer)
            except ProducerFenced:
                self.ledger.fenced += 1
            tasks.cancel_scope.cancel()

    async def _transaction(self, producer: Producer) -> None:
        told = self.ledger.begin()
        way = self._random.choice(self._ways)
        told.why = way.__name__
        try:
            await way(producer, told)
        except CommitUnknown as error:
            told.outcome = Outcome.OPEN
            told.why += f": {error}"
            if isinstance(error.__cause__, ProducerFenced):
                raise error.__cause__ from None
        except ProducerFenced:
            told.outcome = Outcome.ABORTED
            raise
        except (KshareError, ZeroDivisionError) as error:
            told.outcome = Outcome.ABORTED
            told.why += f": {error}"
        finally:
            self._current = None

    # --- what happens to a transaction

    async def _write(self, producer: Producer, told: Told) -> None:
        async with producer.transaction():
            self._current = told
            await self._write_records(producer, told)
        told.outcome = Outcome.COMMITTED

    async def _fail(self, producer: Producer, told: Told) -> None:
        async with producer.transaction():
            self._current = told
            await self._write_records(producer, told)
            raise ZeroDivisionError

    async def _in_scope(self, producer: Producer, told: Told) -> None:
        with anyio.move_on_after(self._random.uniform(0, _LONGEST_S)) as scope:
            await self._write(producer, told)
        if scope.cancelled_caught:
            told.outcome = told.outcome or Outcome.ABORTED

    async def _in_task(self, producer: Producer, told: Told) -> None:
        task = asyncio.create_task(self._write(producer, told))
        await asyncio.sleep(self._random.uniform(0, _LONGEST_S))
        for _ in range(self._random.randint(1, 3)):
            task.cancel()
            await asyncio.sleep(0)
        try:
            await task
        except asyncio.CancelledError:
            told.outcome = Outcome.OPEN

    async def _in_timeout(self, producer: Producer, told: Told) -> None:
        try:
            async with asyncio.timeout(self._random.uniform(0, _LONGEST_S)):
                await self._write(producer, told)
        except TimeoutError:
            told.outcome = Outcome.OPEN

    # --- records

    async def _write_records(self, producer: Producer, told: Told) -> None:
        sends = [await self._enqueue(producer, told) for _ in range(self._random.randint(1, 5))]
        if self._random.random() < 0.5:
            await sends[-1]

    async def _write_besides(self, producer: Producer) -> None:
        """As another task does, that doesn't know when transactions end."""
        while True:
            await anyio.sleep(self._random.uniform(0, 0.01))
            if self._current is not None:
                try:
                    await self._enqueue(producer, self._current)
                except KshareError:
                    continue

    async def _enqueue(self, producer: Producer, told: Told) -> Any:
        self._numbers += 1
        value = b"%s %d" % (self._name.encode(), self._numbers)
        send = await producer.enqueue(TOPIC, value, partition=self._random.randrange(PARTITIONS))
        told.values.add(value)
        return send
