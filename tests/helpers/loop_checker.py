"""A random user of a consumer, and a checker that compares what was accepted with what the user has finished.

The user has several loops at once, over records and over batches, asks any of them for more, and leaves them in every
way there is. Some records can't be deserialized. `Ledger` notes what was handed out and what is finished, independently
of the consumer, and compares it with the outcomes that the broker has confirmed:

- what was accepted was handed out and finished, or accepted explicitly;
- after `commit`, everything that is finished is accepted.

The same script drives both consumers. `Actions` hides whether a call is awaited.
"""

from __future__ import annotations

import gc
import random
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio

from kshare import AcknowledgeError, DeserializationFailed, KshareError, ShareConsumer, sync
from kshare.client.record import ShareBatch, ShareRecord, lease_of, spans_of
from kshare.engine.events import Acknowledged

Place = tuple[int, int]
"""Partition and offset."""
_BROKEN = b"broken"
_MOST_LOOPS = 4


class Actions(Protocol):
    """What the user can do with a consumer. Everything is awaited, whether it has to be or not."""

    def loop(self) -> Any:
        """Begin a loop over records."""
        ...

    def batch_loop(self) -> Any: ...

    async def ask(self, loop: Any) -> Any:
        """The next item of a loop."""
        ...

    async def ask_elsewhere(self, loop: Any) -> None:
        """Ask for it in another thread or task. That must raise KshareError if the current one isn't settled."""
        ...

    async def next_batch(self) -> ShareBatch: ...

    async def commit(self) -> None: ...

    async def produce(self, values: list[bytes]) -> None: ...


@dataclass
class Ledger:
    """What was handed out, what is finished, and what the broker has confirmed."""

    handed_out: set[Place] = field(default_factory=set)
    finished: set[Place] = field(default_factory=set)
    accepted: set[Place] = field(default_factory=set)
    """Confirmed by the broker."""
    given_back: set[Place] = field(default_factory=set)
    """Released or rejected by the user, so finishing it doesn't accept it."""
    violations: list[str] = field(default_factory=list)

    def on_handed_out(self, item: ShareRecord | ShareBatch) -> None:
        for place in places_of(item):
            if place in self.accepted:
                self.violations.append(f"{place} was handed out again after it had been accepted")
            self.given_back.discard(place)
            self.finished.discard(place)
            self.handed_out.add(place)

    def on_finished(self, item: ShareRecord | ShareBatch) -> None:
        self.finished |= places_of(item) - self.given_back

    def on_given_back(self, item: ShareRecord | ShareBatch) -> None:
        self.given_back |= places_of(item)

    def on_settled(self, outcome: Acknowledged) -> None:
        if outcome.error is not None:
            self.violations.append(f"refused: {outcome}")
        for first, last, kind in outcome.ranges():
            if kind != "accept":
                continue
            for offset in range(first, last + 1):
                place = (outcome.partition, offset)
                self.accepted.add(place)
                if place not in self.finished:
                    was = "handed out, not finished" if place in self.handed_out else "never handed out"
                    self.violations.append(f"{place} was accepted, but was {was}")

    def on_committed(self) -> None:
        missing = self.finished - self.accepted
        if missing:
            self.violations.append(
                f"{len(missing)} finished, and not accepted by commit: {sorted(missing)[:9]}"
            )


def places_of(item: ShareRecord | ShareBatch) -> set[Place]:
    if isinstance(item, ShareBatch):
        return {
            (item.partition, offset) for first, last in spans_of(item) for offset in range(first, last + 1)
        }
    return {(item.partition, item.offset)}


def read(data: bytes) -> bytes:
    """The deserializer: some records can't be read."""
    if data.startswith(_BROKEN):
        raise ValueError("broken")
    return data


@dataclass(eq=False)
class _OpenLoop:
    iterator: Any
    is_over_batches: bool
    current: ShareRecord | ShareBatch | None = None


class RandomUser:
    def __init__(self, actions: Actions, ledger: Ledger, seed: int) -> None:
        self._actions = actions
        self._ledger = ledger
        self._random = random.Random(seed)
        self._loops: list[_OpenLoop] = []
        self._produced = 0
        self.counts = {"records": 0, "batches": 0, "broken": 0, "left": 0}

    async def run(self, steps: int) -> None:
        steps_of_user: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (10, self._begin),
            (40, self._ask),
            (3, self._ask_elsewhere),
            (8, self._leave),
            (5, self._settle),
            (2, self._take_batch),
            (4, self._commit),
        ]
        weights, choices = zip(*steps_of_user, strict=True)
        for _ in range(steps):
            (step,) = self._random.choices(choices, weights)
            await step()
            if self._ledger.violations:
                return
        while self._loops:
            await self._leave()
        await self._commit()

    async def _begin(self) -> None:
        if len(self._loops) < _MOST_LOOPS:
            is_over_batches = self._random.random() < 0.15
            iterator = self._actions.batch_loop() if is_over_batches else self._actions.loop()
            self._loops.append(_OpenLoop(iterator, is_over_batches))

    async def _ask(self) -> None:
        """Mostly several times in a row, as a loop does."""
        if not self._loops:
            return await self._begin()
        loop = self._random.choice(self._loops)
        for _ in range(self._random.choice((1, 1, 2, 5))):
            await self._supply()
            if loop.current is not None:
                self._ledger.on_finished(loop.current)
                loop.current = None
            try:
                item = await self._actions.ask(loop.iterator)
            except DeserializationFailed as failure:
                self.counts["broken"] += 1
                if self._random.random() < 0.5:
                    failure.record.reject()
                self._loops.remove(loop)
                return None
            self.counts["batches" if loop.is_over_batches else "records"] += 1
            self._ledger.on_handed_out(item)
            loop.current = item
        return None

    async def _supply(self) -> None:
        """Whoever asks gets something: otherwise it would wait for ever."""
        values = [b"%d" % (self._produced + number) for number in range(self._random.choice((1, 3, 20)))]
        values = [_BROKEN + value if self._random.random() < 0.15 else value for value in values]
        self._produced += len(values)
        await self._actions.produce(values)

    async def _ask_elsewhere(self) -> None:
        loop = self._with_current()
        if loop is not None and _is_held(loop.current):
            await self._actions.ask_elsewhere(loop.iterator)

    async def _leave(self) -> None:
        """By `break`, as a part of a reference cycle, or by `close`, which only the synchronous one has."""
        if not self._loops:
            return
        loop = self._loops.pop(self._random.randrange(len(self._loops)))
        self.counts["left"] += 1
        way = self._random.choice(("break", "cycle", "close"))
        if way == "cycle":
            ring: list[Any] = [loop.iterator]
            ring.append(ring)
            loop.iterator = None
            del ring
            gc.collect()
        elif way == "close" and hasattr(loop.iterator, "close"):
            loop.iterator.close()
        loop.iterator = None

    async def _settle(self) -> None:
        loop = self._with_current()
        if loop is None or loop.current is None:
            return
        current = loop.current
        way = self._random.choice(("accept", "release", "reject"))
        try:
            if way == "accept":
                self._ledger.on_finished(current)
                current.accept()
            else:
                self._ledger.on_given_back(current)
                current.release() if way == "release" else current.reject()
        except AcknowledgeError as error:
            if "has already been sent" not in str(error):
                self._ledger.violations.append(str(error))
        loop.current = None  # that it is finished, too, changes nothing

    async def _take_batch(self) -> None:
        await self._supply()
        batch = await self._actions.next_batch()
        assert len(batch.values()) >= len(batch)
        self._ledger.on_handed_out(batch)
        if self._random.random() < 0.5:
            self._ledger.on_finished(batch)
            batch.accept()

    async def _commit(self) -> None:
        await self._actions.commit()
        self._ledger.on_committed()

    def _with_current(self) -> _OpenLoop | None:
        holding = [loop for loop in self._loops if loop.current is not None]
        return self._random.choice(holding) if holding else None


def _is_held(item: Any) -> bool:
    if isinstance(item, ShareBatch):
        return item.is_held
    return lease_of(item.batch).is_held(item.offset)


class BlockingActions:
    """Actions with a consumer of `kshare.sync`."""

    def __init__(self, consumer: sync.ShareConsumer, produce: Callable[[list[bytes]], object]) -> None:
        self._consumer = consumer
        self._produce = produce

    def loop(self) -> Any:
        return iter(self._consumer)

    def batch_loop(self) -> Any:
        return self._consumer.batches()

    async def ask(self, loop: Any) -> Any:
        return next(loop)

    async def ask_elsewhere(self, loop: Any) -> None:
        got: list[object] = []

        def ask() -> None:
            try:
                got.append(next(loop))
            except KshareError:
                return

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        assert not got, f"another thread got {got}, while the current one was being processed"

    async def next_batch(self) -> ShareBatch:
        return self._consumer.next_batch()

    async def commit(self) -> None:
        self._consumer.commit()

    async def produce(self, values: list[bytes]) -> None:
        self._produce(values)


class AsyncActions:
    """Actions with an async consumer."""

    def __init__(self, consumer: ShareConsumer, produce: Callable[[list[bytes]], object]) -> None:
        self._consumer = consumer
        self._produce = produce

    def loop(self) -> Any:
        return aiter(self._consumer)

    def batch_loop(self) -> Any:
        return self._consumer.batches()

    async def ask(self, loop: Any) -> Any:
        return await anext(loop)

    async def ask_elsewhere(self, loop: Any) -> None:
        got: list[object] = []

        async def ask() -> None:
            try:
                got.append(await anext(loop))
            except KshareError:
                return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
        assert not got, f"another task got {got}, while the current one was being processed"

    async def next_batch(self) -> ShareBatch:
        return await self._consumer.next_batch()

    async def commit(self) -> None:
        await self._consumer.commit()

    async def produce(self, values: list[bytes]) -> None:
        await anyio.to_thread.run_sync(self._produce, values)


def check_blocking(
    bootstrap: str, topic: str, group: str, produce: Callable[[list[bytes]], object], seed: int, steps: int
) -> None:
    """Let a random user of `kshare.sync` do so many steps."""
    ledger = Ledger()
    with sync.ShareConsumer(
        bootstrap, group=group, on_settled=ledger.on_settled, **_options(topic)
    ) as consumer:
        user = RandomUser(BlockingActions(consumer, produce), ledger, seed)
        with suppress(StopIteration):
            user.run(steps).send(None)  # nothing in it waits for an event loop
    _report("kshare.sync", seed, user, ledger)


async def check_async(
    bootstrap: str, topic: str, group: str, produce: Callable[[list[bytes]], object], seed: int, steps: int
) -> None:
    """The same with the async consumer."""
    ledger = Ledger()
    async with ShareConsumer(
        bootstrap, group=group, on_settled=ledger.on_settled, **_options(topic)
    ) as consumer:
        user = RandomUser(AsyncActions(consumer, produce), ledger, seed)
        await user.run(steps)
    _report("kshare", seed, user, ledger)


def _options(topic: str) -> dict[str, Any]:
    return {"topics": [topic], "value_deserializer": read}


def _report(which: str, seed: int, user: RandomUser, ledger: Ledger) -> None:
    counts = f"{user.counts}, {len(ledger.finished)} finished, {len(ledger.accepted)} accepted"
    sys.stdout.write(f"{which}, seed {seed}: {counts}\n")
    assert ledger.accepted, "nothing was accepted"
    assert not ledger.violations, f"seed {seed}: {ledger.violations[:5]}"
