"""Programs that write with `kshare.sync.Producer`, and note what they were told. They may be interrupted anywhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from kshare import BrokerError, CommitUnknown, DeliveryFailed, KshareError, sync
from kshare.producer.settings import CompressionName
from tests.helpers.fates import Fates
from tests.simulation.attributes import Attributes
from tests.simulation.producing import Account, Transactions
from tests.simulation.threaded_processes import ThreadedProcess
from tests.simulation.threads import Thread, sleep

_TRANSACTION_S = 2.0
_SECOND_THREAD = 0.3


class _Deliberate(Exception):
    """Raised in a transaction, which has to be aborted."""


class BlockingWriting:
    """`name`: the transactional id, if there are transactions. `attributes_of` tells what plain records have besides
    their value, by a number. `on_closed` is called when a producer was closed.
    """

    def __init__(
        self,
        process: ThreadedProcess,
        bootstrap: str,
        topic: str,
        partitions: int,
        name: str | None,
        compression: CompressionName | None,
        is_over: Callable[[], bool],
        attributes_of: Callable[[bytes, int], Attributes],
        on_closed: Callable[[], None],
    ) -> None:
        self.account, self.transactions = Account(), Transactions()
        self._process = process
        self._topic = topic
        self._partitions = partitions
        self._is_over = is_over
        self._attributes_of = attributes_of
        self._on_closed = on_closed
        self._options: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "request_timeout": 5.0,
            "delivery_timeout": 6.0,
            "close_timeout": 5.0,
            "compression": compression,
        }
        if name is not None:
            self._options |= {"transactional_id": name, "transaction_timeout": _TRANSACTION_S}
        self._chance = Random(f"{process.chance.random()} writing")
        self._next = 0

    def run(self) -> None:
        while not self._is_over():
            sends: list[sync.PendingSend] = []
            try:
                with self._process.interruptible():
                    self._process.interrupt_soon()
                    with sync.Producer(**self._options) as producer:
                        if "transactional_id" in self._options:
                            self._write_transactions(producer)
                        else:
                            self._write_plainly(producer, sends)
                        self._process.interrupt_soon()
            except (KshareError, KeyboardInterrupt) as error:
                self._note(f"producer: {type(error).__name__}: {error}")
                sleep(0.1)
            undone = sum(not send.is_done for send in sends)
            if undone:
                self.account.broken.append(f"{undone} records have no outcome after the end of a producer")
            self._on_closed()

    def _note(self, what: str) -> None:
        if not self._process.was_killed:
            self._process.note(self._process.name, what)

    def _value(self) -> bytes:
        self._next += 1
        return b"%d.%d" % (self._process.number, self._next)

    # --- without transactions

    def _write_plainly(self, producer: sync.Producer, sends: list[sync.PendingSend]) -> None:
        other: Thread | None = None
        if self._chance.random() < _SECOND_THREAD:
            other = Thread(lambda: self._write_in_other_thread(producer, sends), "other writer")
            other.start()
        try:
            self._write(producer, sends)
        finally:
            if other is not None:
                other.join()

    def _write_in_other_thread(self, producer: sync.Producer, sends: list[sync.PendingSend]) -> None:
        try:
            self._write(producer, sends)
        except KshareError as error:  # it was closed, for instance
            self._note(f"other writer: {type(error).__name__}: {error}")

    def _write(self, producer: sync.Producer, sends: list[sync.PendingSend]) -> None:
        chance, fates = self._chance, self.account.new_fates()
        own: list[tuple[bytes, sync.PendingSend]] = []
        for _ in range(chance.choice([3, 10, 30])):
            if self._is_over():
                return
            deed = chance.choice(["enqueue", "enqueue", "send", "flush", "close"])
            try:
                if deed == "enqueue":
                    for _ in range(chance.choice([1, 5, 40])):
                        self._enqueue(producer, fates, own, sends)
                elif deed == "send":
                    value = self._noted(fates)
                    more = self._attributes(value)
                    self._learn(fates, value, partial(producer.send, self._topic, value, **more))
                elif deed == "flush":
                    self._flush(producer, fates, own, sends)
                elif chance.random() < 0.1:
                    self._close(producer, sends)
                    return
            except KeyboardInterrupt:
                self._note(f"interrupted: {deed}")
                own.clear()  # an interrupted flush may have told of them
            sleep(chance.uniform(0.02, 0.3))

    def _noted(self, fates: Fates) -> bytes:
        value = self._value()
        fates.noted.append(value)
        return value

    def _attributes(self, value: bytes) -> dict[str, Any]:
        return self._attributes_of(value, self._next)._asdict()

    def _enqueue(
        self,
        producer: sync.Producer,
        fates: Fates,
        own: list[tuple[bytes, sync.PendingSend]],
        sends: list[sync.PendingSend],
    ) -> None:
        partition = self._chance.choice([None, self._chance.randrange(self._partitions)])
        value = self._noted(fates)
        send = producer.enqueue(self._topic, value, partition=partition, **self._attributes(value))
        if partition is not None:
            self.account.chosen[value] = partition
        sends.append(send)
        if self._chance.random() < 0.1:
            self._learn(fates, value, send.result)
        else:
            own.append((value, send))

    def _learn(self, fates: Fates, value: bytes, result: Callable[[], Any]) -> None:
        try:
            fates.written[value] = result()
        except DeliveryFailed as failed:
            if failed.is_open:
                fates.open.add(value)
            else:
                fates.not_written[value] = str(failed)
        except BrokerError as refused:
            fates.not_written[value] = str(refused)

    def _flush(
        self,
        producer: sync.Producer,
        fates: Fates,
        own: list[tuple[bytes, sync.PendingSend]],
        sends: list[sync.PendingSend],
    ) -> None:
        """Its promises: everything has an outcome, and who writes learns of what wasn't written."""
        before, said = list(sends), False
        try:
            producer.flush()
        except (DeliveryFailed, BrokerError):
            said = True
        undone = sum(not send.is_done for send in before)
        if undone:
            self.account.broken.append(f"flush returned before {undone} records had an outcome")
            return
        for value, send in own:
            self._learn(fates, value, send.result)
            if value not in fates.written and not said:
                self.account.broken.append(f"flush didn't say that {value!r} wasn't written")
        own.clear()

    def _close(self, producer: sync.Producer, sends: list[sync.PendingSend]) -> None:
        before = list(sends)
        try:
            producer.close()
        except KshareError as error:
            self._note(f"close: {type(error).__name__}: {error}")
        undone = sum(not send.is_done for send in before)
        if undone:
            self.account.broken.append(f"close returned before {undone} records had an outcome")

    # --- transactions

    def _write_transactions(self, producer: sync.Producer) -> None:
        for _ in range(self._chance.choice([2, 10, 40])):
            if self._is_over():
                return
            self._transaction(producer)
            sleep(self._chance.uniform(0.02, 0.3))

    def _transaction(self, producer: sync.Producer) -> None:
        chance = self._chance
        name = f"transaction {self._process.number}.{len(self.transactions.values)}"
        values: list[bytes] = []
        said = self.transactions.said
        self.transactions.values[name] = values
        said[name] = "aborted"
        try:
            with producer.transaction():
                self._write_in_transaction(producer, values)
                if chance.random() < 0.15:
                    raise _Deliberate
                said[name] = "unknown"  # if it ends now, whatever ends it
            said[name] = "committed"
        except (_Deliberate, CommitUnknown):
            pass
        except KeyboardInterrupt:
            self._note(f"interrupted: {name}")
        except KshareError as error:
            said[name] = "aborted"
            self._note(f"{name}: {type(error).__name__}: {error}")
            if type(error) is not DeliveryFailed:
                raise
        finally:
            self._note(f"{name} {said[name]}")

    def _write_in_transaction(self, producer: sync.Producer, values: list[bytes]) -> None:
        for _ in range(self._chance.choice([1, 2, 5])):
            for _ in range(self._chance.choice([1, 5, 20])):
                values.append(self._value())
                write = producer.send if self._chance.random() < 0.1 else producer.enqueue
                write(self._topic, values[-1])
            sleep(self._chance.choice([0.0, 0.01, 0.1]))
