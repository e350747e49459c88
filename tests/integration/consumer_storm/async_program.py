"""A program with an async consumer: several tasks loop over it in all ways there are, until it is closed again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from kshare import ConsumerClosed, DeserializationFailed, KshareError, ShareConsumer
from kshare.surroundings import monotonic
from tests.integration.consumer_storm.diary import Event
from tests.integration.consumer_storm.notes import Boom, Notes

_DEEPEST = 2


async def live(notes: Notes) -> None:
    """Open a consumer, use it for a while, and close it."""
    async with ShareConsumer(notes.orders.bootstrap, **notes.options()) as consumer:
        notes.begin(consumer.member_id)
        with anyio.move_on_after(notes.until - monotonic()) as use:
            user = _User(notes, consumer, use)
            async with anyio.create_task_group() as tasks:
                for _ in range(notes.chance.choice([1, 1, 2, 3])):
                    tasks.start_soon(user.loop_on)
                if notes.chance.random() < 0.1:
                    tasks.start_soon(user.close_early)
                tasks.start_soon(user.meddle)
    notes.did("closed")


class _User:
    def __init__(self, notes: Notes, consumer: Any, use: anyio.CancelScope) -> None:
        self._notes, self._consumer, self._chance = notes, consumer, notes.chance
        self._use = use

    async def loop_on(self) -> None:
        """One loop after another."""
        while not self._notes.is_over:
            kind = self._chance.choices(["records", "batches", "next_batch"], [7, 2, 1])[0]
            try:
                with anyio.CancelScope() as scope:
                    if kind == "records":
                        await self._records(scope, 0)
                    elif kind == "batches":
                        await self._batches()
                    else:
                        await self._single_batch()
            except Boom:
                self._notes.did("raised in a body")
            except DeserializationFailed as failure:
                self._notes.unreadable(failure)
            except ConsumerClosed:
                return
            await checkpoint()

    async def close_early(self) -> None:
        await anyio.sleep(self._chance.uniform(0.1, 2.0) * self._notes.slowness)
        self._notes.did("closed by another task")
        await self._consumer.close()

    async def meddle(self) -> None:
        """Pause, resubscribe, and so on, while loops run."""
        notes, consumer = self._notes, self._consumer
        while not notes.is_over:
            await anyio.sleep(self._chance.uniform(0.05, 0.6) * notes.slowness)
            deed = self._chance.choice(
                ["pause", "maximum", "subscribe", "stop", "commit", "commit", "commit", "commit"]
            )
            try:
                if deed == "pause":
                    consumer.pause()
                    await anyio.sleep(self._chance.uniform(0, 0.3) * notes.slowness)
                    consumer.resume()
                elif deed == "maximum":
                    consumer.set_max_records(self._chance.choice([1, 5, 20, 1000]))
                elif deed == "subscribe":
                    consumer.subscribe([f"{notes.orders.topic}-none"])
                    await anyio.sleep(self._chance.uniform(0, 0.3) * notes.slowness)
                    consumer.subscribe([notes.orders.topic])
                elif deed == "stop" and self._chance.random() < 0.3:
                    consumer.pause(release=True)
                    consumer.set_max_records(500)
                    notes.until = min(notes.until, monotonic() + 0.5)
                    if notes.slowness > 1.0:  # otherwise its loops wait for hours
                        self._use.deadline = min(self._use.deadline, anyio.current_time() + 0.5)
                else:
                    await self._commit()
            except ConsumerClosed:
                return
            notes.did(deed)

    async def _commit(self) -> None:
        self._notes.commits()
        try:
            results = await self._consumer.commit()
        except KshareError as error:
            if isinstance(error, ConsumerClosed):
                raise
            return self._notes.did(f"commit raised {type(error).__name__}")
        self._notes.committed(results)
        return None

    async def _records(self, scope: anyio.CancelScope, depth: int, most: int = 1_000_000) -> None:
        notes = self._notes
        stream: AsyncIterator[Any] = aiter(self._consumer)
        held: list[Any] = []
        current: Any = None
        try:
            for _ in range(most):
                if notes.is_over or scope.cancel_called:
                    break
                if current is not None:
                    notes.of(Event.ENDED, current)
                    current = None
                record = current = await anext(stream)
                notes.handed(record)
                is_settled = await self._body(record, scope, depth)
                if not notes.is_implicit:
                    current = None
                    if not is_settled:
                        held.append(record)
                    self._settle_some(held)
                elif is_settled:
                    current = None
                if self._chance.random() < 0.003:
                    notes.did("left a loop")
                    break
        finally:
            if current is not None and notes.is_implicit:
                notes.of(Event.ABANDONED, current)

    def _settle_some(self, held: list[Any]) -> None:
        """In any order."""
        while held and (len(held) > 5 or self._chance.random() < 0.8):
            record = held.pop(self._chance.randrange(len(held)))
            self._notes.settle(record, self._chance.choices(["accept", "release"], [30, 1])[0])

    async def _body(self, record: Any, scope: anyio.CancelScope, depth: int) -> bool:
        """Returns whether the record was settled in it."""
        notes, chance = self._notes, self._chance
        deed = chance.choices(
            [
                "",
                "sleep",
                "slow",
                "stall",
                "raise",
                "cancel",
                "accept",
                "release",
                "reject",
                "renew",
                "nested",
            ],
            [500, 60, 3, 1, 10, 10, 100, 10, 5, 10, 20],
        )[0]
        if deed == "sleep":
            await anyio.sleep(chance.uniform(0, 0.02))
        elif deed == "slow":
            notes.did("slow body")
            await anyio.sleep(notes.slow_body_s())
        elif deed == "stall":
            notes.did("stalled body")
            notes.block(1.2 * notes.orders.lock_s)
        elif deed == "raise":
            raise Boom
        elif deed == "cancel":
            notes.did("cancelled in a body")
            scope.cancel()
            await anyio.sleep(1.0)
        elif deed == "nested" and depth < _DEEPEST:
            notes.did("nested loop")
            try:
                with anyio.move_on_after(1.0):
                    await self._records(scope, depth + 1, most=chance.randrange(1, 6))
            except DeserializationFailed as failure:
                notes.did("unreadable in a nested loop")
                notes.unreadable(failure)
        elif deed in ("accept", "release", "reject", "renew"):
            notes.did(deed)
            return notes.settle(record, deed)
        return False

    async def _batches(self) -> None:
        stream: AsyncIterator[Any] = self._consumer.batches()
        ended: list[Any] = []
        for _ in range(self._chance.randrange(1, 10)):
            if self._notes.is_over:
                return
            for record in ended:
                self._notes.of(Event.ENDED, record)
            ended = await self._with_batch(await anext(stream))

    async def _single_batch(self) -> None:
        batch = await self._consumer.next_batch()
        self._notes.accept_all(batch, await self._with_batch(batch, is_left=True))

    async def _with_batch(self, batch: Any, *, is_left: bool = False) -> list[Any]:
        """Returns the records that aren't settled. `is_left`: the caller accepts the batch."""
        records = self._notes.handed_batch(batch)
        self._notes.did("batch")
        rest = [
            record
            for record in records
            if self._chance.random() > 0.05
            or not self._notes.settle(record, self._chance.choice(["accept", "release", "renew"]))
        ]
        await anyio.sleep(self._chance.choice([0, 0, 0.01]))
        if self._chance.random() < 0.05:
            raise Boom
        if not self._notes.is_implicit and not is_left:
            self._notes.accept_all(batch, rest)
            return []
        return rest
