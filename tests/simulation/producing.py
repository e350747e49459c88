"""Programs that write, and note what they were told. Each task of a process notes what it has enqueued itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from hashlib import sha512
from random import Random
from typing import Any

import anyio
from anyio.abc import TaskGroup

from kshare import BrokerError, CommitUnknown, DeliveryFailed, KshareError, Produced, Producer
from kshare.producer.records import PendingSend
from kshare.surroundings import monotonic
from tests.helpers.fates import Fates, Placed
from tests.integration.consumer_storm.judging import Place
from tests.simulation.ledger import ERA
from tests.simulation.processes import Process

_SMALL_BUFFER = 65_536
_LATE_S = 12.0
"""By how much an outcome may come after the delivery timeout: a request that was sent isn't given up before its own."""
_TRIES = 20


class Account:
    """What the tasks of a process were told of the records that they have written."""

    def __init__(self) -> None:
        self.fates: list[Fates] = []
        self.not_enqueued: dict[bytes, str] = {}
        """Values that the producer has refused, or whose call was cancelled: they aren't written."""
        self.broken: list[str] = []
        """Promises that were broken."""
        self.chosen: dict[bytes, int] = {}
        """The partitions that were asked for."""

    def new_fates(self) -> Fates:
        self.fates.append(Fates())
        return self.fates[-1]

    @property
    def counts(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for fate in self.fates:
            found["said: written"] += len(fate.written)
            found["said: not written"] += len(fate.not_written)
            found["said: open"] += len(fate.open)
        found["not enqueued"] = len(self.not_enqueued)
        return found

    def contradictions(
        self, everything: Mapping[int, Sequence[Placed]], is_lost: Callable[[Place], bool]
    ) -> list[str]:
        """`everything`: what has ever been in the logs, by the ledger's numbers. Brokers have lost some of it.

        What was lost may be written again, but not if its producer was told that it had been written.
        """
        numbers = {
            (number % ERA, row.offset, row.value): number
            for number, rows in everything.items()
            for row in rows
        }
        said: set[tuple[Place, bytes]] = set()
        for fates in self.fates:
            for value, produced in fates.written.items():
                number = numbers.get((produced.partition, produced.offset, value), produced.partition)
                fates.written[value] = produced._replace(partition=number)
            said |= {
                ((produced.partition, produced.offset), value) for value, produced in fates.written.items()
            }
            said |= {((-1, -1), value) for value in fates.not_written}
        logs = {
            number: [
                row
                for row in rows
                if not is_lost((number, row.offset))
                or not said.isdisjoint({((number, row.offset), row.value), ((-1, -1), row.value)})
            ]
            for number, rows in everything.items()
        }
        found = [contradiction for fates in self.fates for contradiction in fates.contradictions(logs)]
        places = {row.value: partition for partition, rows in logs.items() for row in rows}
        found += [
            f"{value!r} wasn't enqueued ({why}), and is in the log"
            for value, why in self.not_enqueued.items()
            if value in places
        ]
        found += [
            f"{value!r} was to be in partition {partition}, and is in {places[value]}"
            for value, partition in self.chosen.items()
            if places.get(value, partition) % ERA != partition
        ]
        return found


@dataclass
class Transactions:
    """What was told of each transaction, and the values that it has written, in order."""

    values: dict[str, list[bytes]] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    """"committed", "aborted" or "unknown"."""
    broken: list[str] = field(default_factory=list)
    """Promises that were broken."""
    chosen: dict[bytes, int] = field(default_factory=dict)
    """The partitions that were asked for."""
    told: dict[bytes, Place] = field(default_factory=dict)
    """Where each record is, as its producer says. Only that of committed transactions counts."""

    @property
    def counts(self) -> Counter[str]:
        return Counter(f"transactions {said}" for said in self.said.values())

    def tell(self, value: bytes, produced: Produced) -> None:
        if produced.offset >= 0:  # the broker may no longer know it, of a duplicate
            self.told[value] = produced.partition, produced.offset

    def contradictions(self, visible: Mapping[bytes, Sequence[Place]], lost: Set[bytes]) -> list[str]:
        """`visible`: where each value is. `lost`: values that were in a topic that is deleted."""
        found = []
        for name, values in self.values.items():
            said = self.said[name]
            places = {value: visible.get(value, ()) for value in values if value not in lost}
            seen = [len(place) for place in places.values()]
            if any(count > 1 for count in seen):
                found.append(f"{name} ({said}): records are visible more than once: {seen}")
            elif any(seen) and not all(seen) and (said == "committed" or lost.isdisjoint(values)):
                found.append(f"{name} ({said}): {sum(seen)} of {len(seen)} records are visible")
            elif said == "committed" and not all(seen):
                found.append(f"{name} was committed, and none of its {len(seen)} records is visible")
            elif said == "aborted" and any(seen):
                found.append(f"{name} was aborted, and its {len(seen)} records are visible")
            elif any(seen):
                at = {value: found_at for value, (found_at, *_) in places.items()}
                found += self._misplaced(name, at, is_committed=said == "committed")
        return found

    def _misplaced(self, name: str, at: Mapping[bytes, Place], *, is_committed: bool) -> Iterator[str]:
        """Records that aren't where they should be, of a visible transaction. `at` is in their order."""
        last: dict[int, int] = {}
        for value, (partition, offset) in at.items():
            if self.chosen.get(value, partition) != partition:
                wanted = self.chosen[value]
                yield f"{name}: {value!r} was to be in partition {wanted}, and is in {partition}"
            if offset < last.get(partition, -1):
                yield f"{name}: {value!r} is before an earlier record, at {partition}:{offset}"
            last[partition] = offset
            if is_committed and self.told.get(value, (partition, offset)) != (partition, offset):
                yield f"{name}: {value!r} is at {partition}:{offset}, not at {self.told[value]}"


class _Deliberate(Exception):
    """Raised in a transaction, which has to be aborted."""


class Writing:
    def __init__(
        self,
        process: Process,
        chance: Random,
        topic: str,
        partitions: Callable[[], int],
        options: dict[str, Any],
        is_over: Callable[[], bool],
        on_closed: Callable[[], Awaitable[None]],
        slowness: float,
    ) -> None:
        """`on_closed` is called when a producer of the process was closed, and has no other. `slowness`: see `Pace`."""
        self.account = Account()
        self._process = process
        self._chance = chance
        self._topic = topic
        self._partitions = partitions
        self._options = options
        self._is_over = is_over
        self._on_closed = on_closed
        self._slowness = slowness
        self._next = 0
        self._buffered: list[tuple[int, PendingSend]] = []
        """The sizes of values that may not be written yet."""

    def _note(self, what: str) -> None:
        if not self._process.was_killed:
            self._process.note(self._process.name, what)

    def _value(self) -> bytes:
        self._next += 1
        size = self._chance.choice([0, 0, 0, 300])
        name = b"%d.%d" % (self._process.number, self._next)
        noise = b"".join(sha512(b"%s %d" % (name, part)).hexdigest().encode() for part in range(size // 100))
        return b"%s.%s" % (name, noise[:size])  # what compresses well would never be too large

    # --- plain producers

    async def plain(self) -> None:
        while not self._is_over():
            sends: list[PendingSend] = []
            async with anyio.create_task_group() as learning:
                try:
                    async with Producer(**self._options) as producer:
                        await self._write_for_a_while(producer, learning, sends)
                except KshareError as error:
                    self._note(f"producer: {type(error).__name__}: {error}")
                    await anyio.sleep(0.1)
                await self._on_closed()
                undone = sum(not send.is_done for send in sends)
                if undone:
                    self.account.broken.append(
                        f"{undone} records have no outcome after the end of a producer"
                    )
                    learning.cancel_scope.cancel()
        await self._write_at_last()

    async def _write_for_a_while(
        self, producer: Producer, learning: TaskGroup, sends: list[PendingSend]
    ) -> None:
        rounds = self._chance.choice([3, 10, 40])
        async with anyio.create_task_group() as tasks:
            for _ in range(self._chance.choice([1, 1, 2, 3])):
                tasks.start_soon(self._write, producer, rounds, learning, sends)

    async def _write(
        self, producer: Producer, rounds: int, learning: TaskGroup, sends: list[PendingSend]
    ) -> None:
        chance, fates = self._chance, self.account.new_fates()
        own: list[tuple[bytes, PendingSend]] = []
        for _ in range(rounds):
            if self._is_over():
                return
            patience = chance.choice([0.0, 0.001, 0.02, 0.3]) if chance.random() < 0.3 else None
            with anyio.CancelScope() as scope:
                if patience is not None:
                    scope.deadline = anyio.current_time() + patience
                match chance.choice(["enqueue", "enqueue", "send", "flush"]):
                    case "enqueue":
                        for _ in range(chance.choice([1, 5, 40])):
                            value = self._value()
                            send = await self._enqueue(producer, value, fates)
                            if send is None:
                                break
                            sends.append(send)
                            if chance.random() < 0.5:
                                learning.start_soon(self._learn, fates, value, send)
                            else:
                                own.append((value, send))
                    case "send":
                        await self._send(producer, fates)
                    case _:
                        await self._flush(producer, own, sends, fates)
                if chance.random() < 0.02:
                    learning.start_soon(self._close, producer, sends)
            await anyio.sleep(chance.choice([0.0, 0.01, 0.2]) * self._slowness)
        await self._flush(producer, own, sends, fates)

    async def _enqueue(self, producer: Producer, value: bytes, fates: Fates) -> PendingSend | None:
        partition = self._chance.choice([None, self._chance.randrange(self._partitions())])
        try:
            send = await producer.enqueue(self._topic, value, partition=partition)
        except KshareError as error:
            self.account.not_enqueued[value] = type(error).__name__
            return None
        except anyio.get_cancelled_exc_class():
            self.account.not_enqueued[value] = "cancelled"
            raise
        fates.noted.append(value)
        if partition is not None:
            self.account.chosen[value] = partition
        self._look_at_buffer(value, send)
        return send

    def _look_at_buffer(self, value: bytes, send: PendingSend) -> None:
        """What waits never takes more memory than was allowed."""
        limit = int(self._options["buffer_bytes"])
        if limit > _SMALL_BUFFER:
            return
        self._buffered = [
            *(waiting for waiting in self._buffered if not waiting[1].is_done),
            (len(value), send),
        ]
        size = sum(size for size, _ in self._buffered)
        if size > limit:
            self.account.broken.append(f"{size} bytes are in a buffer of {limit}")

    async def _learn(self, fates: Fates, value: bytes, send: PendingSend) -> None:
        most, began = float(self._options["delivery_timeout"]) + _LATE_S, monotonic()
        with anyio.move_on_after(most) as scope:
            await fates.learn(value, send)
        was_suspended = any(until > began for _, until in self._process.suspended)
        if scope.cancelled_caught and not self._process.was_killed and not was_suspended:
            self.account.broken.append(f"{value!r} has no outcome after {most} s")

    async def _send(self, producer: Producer, fates: Fates) -> None:
        value = self._value()
        fates.noted.append(value)
        try:
            await fates.learn(value, producer.send(self._topic, value))
        except KshareError as error:
            fates.not_written[value] = str(error)

    async def _flush(
        self,
        producer: Producer,
        own: list[tuple[bytes, PendingSend]],
        sends: list[PendingSend],
        fates: Fates,
    ) -> None:
        """Its promises: everything has an outcome, and who writes learns of what wasn't written."""
        before, said = list(sends), False
        try:
            await producer.flush()
        except (DeliveryFailed, BrokerError):
            said = True
        except KshareError as error:
            self._note(f"flush: {type(error).__name__}: {error}")
            return
        undone = sum(not send.is_done for send in before)
        if undone:
            self.account.broken.append(f"flush returned before {undone} records had an outcome")
            return
        for value, send in own:
            await fates.learn(value, send)
            if value not in fates.written and not said:
                self.account.broken.append(f"flush didn't say that {value!r} wasn't written")
        own.clear()

    async def _close(self, producer: Producer, sends: list[PendingSend]) -> None:
        """Others may close it at the same time, and all wait until everything has an outcome."""
        before = list(sends)
        try:
            await producer.close()
        except KshareError as error:
            self._note(f"close: {type(error).__name__}: {error}")
        undone = sum(not send.is_done for send in before)
        if undone:
            self.account.broken.append(f"close returned before {undone} records had an outcome")

    async def _write_at_last(self) -> None:
        """Once nothing is disturbed any more, records are written."""
        fates = self.account.new_fates()
        for _ in range(_TRIES):
            try:
                async with Producer(**self._options) as producer:
                    await self._send(producer, fates)
            except KshareError as error:
                self._note(f"producer: {type(error).__name__}: {error}")
            if fates.written:
                return
            await anyio.sleep(1.0)
        self.account.broken.append("nothing can be written at the end")

    # --- transactions

    async def in_transactions(self, name: str, timeout: float, transactions: Transactions) -> None:
        while not self._is_over():
            try:
                async with Producer(
                    **self._options, transactional_id=name, transaction_timeout=timeout
                ) as producer:
                    for _ in range(self._chance.choice([2, 10, 40])):
                        if self._is_over():
                            break
                        await self._transaction(producer, transactions)
                        await anyio.sleep(self._chance.choice([0.0, 0.01, 0.2]) * self._slowness)
            except KshareError as error:
                self._note(f"producer: {type(error).__name__}: {error}")
                await anyio.sleep(self._chance.choice([0.1, 1.0]))
            await self._on_closed()
        await self._commit_at_last(name, timeout, transactions)

    async def _commit_at_last(self, name: str, timeout: float, transactions: Transactions) -> None:
        """Once nothing is disturbed any more, a transaction can be committed. Others may fence this producer."""
        for _ in range(_TRIES):
            before = transactions.counts
            try:
                async with Producer(
                    **self._options, transactional_id=name, transaction_timeout=timeout
                ) as producer:
                    await self._transaction(producer, transactions, is_calm=True)
            except KshareError as error:
                self._note(f"producer: {type(error).__name__}: {error}")
            if (transactions.counts - before)["transactions committed"]:
                return
            await anyio.sleep(self._chance.uniform(0.5, 1.5))
        transactions.broken.append("no transaction can be committed at the end")

    async def _transaction(
        self, producer: Producer, transactions: Transactions, *, is_calm: bool = False
    ) -> None:
        """`is_calm`: it isn't cancelled, and doesn't raise."""
        chance = self._chance
        name = f"transaction {self._process.number}.{len(transactions.values)}"
        values: list[bytes] = []
        sends: dict[bytes, PendingSend] = {}
        transactions.values[name] = values
        transactions.said[name] = "aborted"
        patience = None
        if not is_calm and chance.random() < 0.4:
            patience = chance.choice([0.0, 0.001, 0.02, 0.3])
        is_in_body = False
        try:
            with anyio.CancelScope() as scope:
                if patience is not None:
                    scope.deadline = anyio.current_time() + patience
                async with producer.transaction():
                    is_in_body = True
                    await self._write_in_transaction(producer, values, transactions, sends)
                    if not is_calm and chance.random() < 0.15:
                        raise _Deliberate
                    is_in_body = False
                    transactions.said[name] = "unknown"  # if it ends now, whatever ends it
                if values:
                    transactions.said[name] = "committed"
        except _Deliberate:
            pass
        except CommitUnknown:
            assert not is_in_body
        except KshareError as error:
            transactions.said[name] = "aborted"
            self._note(f"{name}: {type(error).__name__}: {error}")
            if type(error) is not DeliveryFailed:
                raise
        if transactions.said[name] == "committed":
            self._learn_places(name, sends, transactions)
        self._note(f"{name} {transactions.said[name]}")

    @staticmethod
    def _learn_places(name: str, sends: Mapping[bytes, PendingSend], transactions: Transactions) -> None:
        for value, send in sends.items():
            try:
                transactions.tell(value, send.result())
            except KshareError as error:
                transactions.broken.append(f"{name} was committed, though {value!r} wasn't written: {error}")

    async def _write_in_transaction(
        self,
        producer: Producer,
        values: list[bytes],
        transactions: Transactions,
        sends: dict[bytes, PendingSend],
    ) -> None:
        chance = self._chance
        for _ in range(chance.choice([1, 2, 5])):
            for _ in range(chance.choice([1, 5, 20])):
                value = self._value()
                partition = chance.choice([None, chance.randrange(self._partitions())])
                values.append(value)
                if partition is not None:
                    transactions.chosen[value] = partition
                if chance.random() < 0.1:
                    transactions.tell(value, await producer.send(self._topic, value, partition=partition))
                else:
                    sends[value] = await producer.enqueue(self._topic, value, partition=partition)
            await anyio.sleep(chance.choice([0.0, 0.01, 0.1]))
