"""A program with a consumer of `kshare.sync`: one thread loops over it in all ways there are, until it is closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from kshare import ConsumerClosed, DeserializationFailed, KshareError, sync
from kshare.client.record import ShareBatch
from kshare.surroundings import monotonic
from tests.integration.consumer_storm.diary import Event
from tests.integration.consumer_storm.notes import Boom, Notes

_DEEPEST = 2
_WAIT_S = 0.3
_LONGER_S = 0.05


def live(notes: Notes) -> None:
    """Open a consumer, use it for a while, and close it. A timer closes it if nothing comes any more."""
    with sync.ShareConsumer(notes.orders.bootstrap, **notes.options()) as consumer:
        notes.begin(consumer.member_id)
        notes.may_be_told_to_close(consumer.close)
        timer = threading.Timer(max(0.0, notes.until - monotonic()) + 0.2, consumer.close)
        timer.start()
        try:
            _User(notes, consumer).loop_on()
        finally:
            timer.cancel()
            timer.join()
    notes.did("closed")


class _User:
    def __init__(self, notes: Notes, consumer: Any) -> None:
        self._notes, self._consumer, self._chance = notes, consumer, notes.chance
        self._other: threading.Thread | None = None
        """Asks for records, too."""

    def loop_on(self) -> None:
        while not self._notes.is_over:
            kind = self._chance.choices(["records", "batches", "next_batch"], [7, 2, 1])[0]
            try:
                if kind == "records":
                    self._records(0)
                elif kind == "batches":
                    self._batches()
                else:
                    self._single_batch()
                if self._chance.random() < 0.5:
                    self._meddle()
            except Boom:
                self._notes.did("raised in a body")
            except DeserializationFailed as failure:
                self._notes.unreadable(failure)
            except KeyboardInterrupt:
                self._notes.did("interrupted")
            except ConsumerClosed:
                return

    def _meddle(self) -> None:
        """Pause, resubscribe, and so on, between or within loops."""
        notes, consumer = self._notes, self._consumer
        deed = self._chance.choice(
            ["pause", "maximum", "subscribe", "stop", "commit", "commit", "commit", "commit"]
        )
        try:
            if deed == "pause":
                consumer.pause()
                batch = consumer.next_batch(timeout=self._chance.uniform(0, _WAIT_S))
                if batch is not None:
                    notes.accept_all(batch, self._with_batch(batch, is_left=True))
                consumer.resume()
            elif deed == "maximum":
                consumer.set_max_records(self._chance.choice([1, 5, 20, 1000]))
            elif deed == "subscribe":
                consumer.subscribe([f"{notes.orders.topic}-none"])
                time.sleep(self._chance.uniform(0, 0.05))
                consumer.subscribe([notes.orders.topic])
            elif deed == "stop" and self._chance.random() < 0.3:
                consumer.pause(release=True)
                consumer.set_max_records(500)
                notes.until = min(notes.until, monotonic() + 0.5)
            else:
                self._commit()
        except ConsumerClosed:
            return
        notes.did(deed)

    def _commit(self) -> None:
        self._notes.commits()
        try:
            results = self._consumer.commit()
        except KshareError as error:
            return self._notes.did(f"commit raised {type(error).__name__}")
        self._notes.committed(results)
        return None

    def _records(self, depth: int, most: int = 1_000_000) -> None:
        notes = self._notes
        loop: Iterator[Any] = iter(self._consumer)
        held: list[Any] = []
        current: Any = None
        try:
            for _ in range(most):
                if notes.is_over:
                    break
                ended, current = current, None
                current = self._next(loop, [] if ended is None else [ended])
                notes.handed(current)
                self._wait_for_other()
                is_settled = self._body(current, depth)
                if not notes.is_implicit:
                    if not is_settled:
                        held.append(current)
                    self._settle_some(held)
                if is_settled or not notes.is_implicit:
                    current = None
                if self._chance.random() < 0.003:
                    notes.did("left a loop")
                    break
        finally:
            if current is not None and notes.is_implicit:
                notes.of(Event.ABANDONED, current)

    def _next(self, loop: Iterator[Any], ended: list[Any]) -> Any:
        """What follows in a loop that has ended these."""
        for record in ended:
            self._notes.of(Event.ENDED, record)
        if self._chance.random() < 0.02:
            self._other = threading.Thread(target=self._ask_too, args=(loop,))
            self._other.start()
        try:
            return next(loop)
        except DeserializationFailed:
            raise
        except (KshareError, KeyboardInterrupt):  # they may be accepted or not
            for record in ended:
                self._notes.of(Event.TOO_LATE, record)
            raise

    def _wait_for_other(self) -> None:
        """Process what was handed out until the other thread has got its response, and for a while."""
        if self._other is not None:
            self._other.join()
            self._other = None
            time.sleep(_LONGER_S)

    def _ask_too(self, loop: Iterator[Any]) -> None:
        """In another thread, which is refused, unless nobody is processing anything."""
        try:
            found = next(loop)
        except (KshareError, StopIteration):
            self._notes.did("another thread was refused")
            return
        if isinstance(found, ShareBatch):
            self._notes.accept_all(found, self._notes.handed_batch(found))
        else:
            self._notes.handed(found)
            self._notes.settle(found, "accept")

    def _settle_some(self, held: list[Any]) -> None:
        """In any order, and in any thread."""
        while held and (len(held) > 5 or self._chance.random() < 0.8):
            record = held.pop(self._chance.randrange(len(held)))
            way = self._chance.choices(["accept", "release"], [30, 1])[0]
            if self._chance.random() < 0.05:
                thread = threading.Thread(target=self._notes.settle, args=(record, way))
                thread.start()
                thread.join()
                self._notes.did("settled in another thread")
            else:
                self._notes.settle(record, way)

    def _body(self, record: Any, depth: int) -> bool:
        """Returns whether the record was settled in it."""
        notes, chance = self._notes, self._chance
        deed = chance.choices(
            ["", "sleep", "slow", "raise", "accept", "release", "reject", "renew", "nested", "meddle"],
            [500, 60, 3, 10, 100, 10, 5, 10, 20, 20],
        )[0]
        if deed == "sleep":
            time.sleep(chance.uniform(0, 0.02))
        elif deed == "slow":
            notes.did("slow body")
            time.sleep(1.2 * notes.orders.lock_s)
        elif deed == "raise":
            raise Boom
        elif deed == "nested" and depth < _DEEPEST:
            notes.did("nested loop")
            try:
                self._records(depth + 1, most=chance.randrange(1, 6))
            except DeserializationFailed as failure:
                notes.did("unreadable in a nested loop")
                notes.unreadable(failure)
        elif deed == "meddle":
            self._meddle()
        elif deed in ("accept", "release", "reject", "renew"):
            notes.did(deed)
            return notes.settle(record, deed)
        return False

    def _batches(self) -> None:
        loop: Iterator[Any] = self._consumer.batches()
        ended: list[Any] = []
        for _ in range(self._chance.randrange(1, 10)):
            if self._notes.is_over:
                return
            ended = self._with_batch(self._next(loop, ended))

    def _single_batch(self) -> None:
        batch = self._consumer.next_batch(timeout=_WAIT_S)
        if batch is not None:
            self._notes.accept_all(batch, self._with_batch(batch, is_left=True))

    def _with_batch(self, batch: Any, *, is_left: bool = False) -> list[Any]:
        """Returns the records that aren't settled. `is_left`: the caller accepts the batch."""
        records = self._notes.handed_batch(batch)
        self._notes.did("batch")
        self._wait_for_other()
        rest = [
            record
            for record in records
            if self._chance.random() > 0.05
            or not self._notes.settle(record, self._chance.choice(["accept", "release", "renew"]))
        ]
        if self._chance.random() < 0.05:
            raise Boom
        if not self._notes.is_implicit and not is_left:
            self._notes.accept_all(batch, rest)
            return []
        return rest
