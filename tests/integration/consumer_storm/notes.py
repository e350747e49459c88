"""What both kinds of programs have in common: their options, their moods, and what they note in their diaries."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kshare import AcknowledgeError, DeserializationFailed
from kshare.client.record import ShareBatch, ShareRecord, spans_of
from kshare.engine.events import (
    Acknowledged,
    Damaged,
    GivenBack,
    LeaseLost,
    LeaseRenewed,
    SessionEnded,
    Skipped,
)
from kshare.surroundings import monotonic
from tests.integration.consumer_storm.diary import Diary, Event

_NOTICED = (Damaged, GivenBack, LeaseLost, LeaseRenewed, SessionEnded, Skipped)
UNREADABLE = 0.02
"""The share of records for which the deserializer raises, each time anew."""


@dataclass(frozen=True)
class Orders:
    """What a program gets to know."""

    bootstrap: str
    group: str
    topic: str
    stop: str
    """The path of a file. The program ends when it exists."""
    lock_s: float
    can_renew: bool
    seed: int
    kind: str
    defect: str | None = None

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def is_over(self) -> bool:
        return Path(self.stop).exists()


def text_of(value: bytes | None) -> str:
    """In one line, even if it is damaged."""
    return bytes(value or b"").decode("latin-1").encode("unicode_escape").decode()


class Boom(Exception):
    """Raised by the body of a loop."""


class Notes:
    """Of one opened consumer."""

    slowness = 1.0
    """How many times longer than usual its user pauses."""

    def __init__(self, orders: Orders, diary: Diary, chance: random.Random) -> None:
        self.orders, self.chance = orders, chance
        self.member = ""
        self.is_implicit = chance.random() < 0.6
        self.until = monotonic() + chance.uniform(0.5, 4.0)
        self._diary = diary

    def options(self) -> dict[str, Any]:
        chance = self.chance
        options: dict[str, Any] = {
            "group": self.orders.group,
            "topics": [self.orders.topic],
            "acknowledgement": "implicit" if self.is_implicit else "explicit",
            "max_records": chance.choice([1, 3, 10, 50, 1000]),
            "renew_leases": chance.random() < 0.6,
            "request_timeout": 5.0,
            "close_timeout": 3.0,
            "on_settled": self._on_settled,
            "observer": self._on_event,
        }
        if self.orders.can_renew:
            options["acquire"] = chance.choice(["auto", "records", "batches"])
        if chance.random() < 0.7:
            options["value_deserializer"] = self._read
        return options

    def _read(self, value: bytes) -> bytes:
        if self.chance.random() < UNREADABLE:
            raise ValueError("unreadable today")
        return value

    @property
    def is_over(self) -> bool:
        return monotonic() >= self.until or self.orders.is_over

    def slow_body_s(self) -> float:
        """How long a slow body takes."""
        return 1.2 * self.orders.lock_s

    def block(self, seconds: float) -> None:
        """The program blocks its event loop."""
        time.sleep(seconds)

    def begin(self, member: str) -> None:
        """Called before records are asked for: of a killed process, the judge has to know all members."""
        self.member = member
        self.did("opened")

    def may_be_told_to_close(self, close: Callable[[], None]) -> None:
        """A signal handler may call this. Programs of the storm have none: they run in threads."""

    # --- events of the consumer

    def _on_settled(self, outcome: Acknowledged) -> None:
        event = Event.CONFIRMED if outcome.error is None else Event.REFUSED
        if outcome.topic == self.orders.topic:
            for first, last, kind in outcome.ranges():
                if kind == "accept":
                    self._write(event, (outcome.partition, first), text=str(last))

    def _on_event(self, event: object) -> None:
        if isinstance(event, _NOTICED):
            reason = getattr(event, "reason", "") if isinstance(event, LeaseLost) else ""
            self._write(Event.NOTICED, text=f"{type(event).__name__} {reason}".strip())

    # --- what the program does

    def _write(
        self, event: Event, place: tuple[int, int] = (-1, -1), delivery: int = 0, text: str = ""
    ) -> None:
        self._diary.write(event, self.member, place, delivery, text)

    def did(self, what: str) -> None:
        self._write(Event.DID, text=what)

    def commits(self) -> None:
        self._write(Event.COMMITS)

    def committed(self, results: dict[tuple[str, int], Any]) -> None:
        failed = [str(number) for (_, number), error in results.items() if error is not None]
        self._write(Event.COMMITTED, text=",".join(failed))

    def of(self, event: Event, record: ShareRecord, text: str = "") -> None:
        self._write(event, (record.partition, record.offset), record.delivery_count, text)

    def handed(self, record: Any) -> None:
        self.of(Event.HANDED, record, text_of(record.value))

    def handed_batch(self, batch: ShareBatch) -> list[ShareRecord]:
        """Iterate over it, whatever the deserializer says. Returns the records."""
        records, iterator = [], iter(batch)
        while True:
            try:
                record = next(iterator)
            except StopIteration:
                break
            except DeserializationFailed as failure:
                record = failure.record
                self.of(Event.HANDED, record, text_of(record.value))
                records.append(record)
                continue
            self.handed(record)
            records.append(record)
        got = {record.offset for record in records}
        assert got <= {offset for first, last in spans_of(batch) for offset in range(first, last + 1)}
        return records

    def unreadable(self, failure: DeserializationFailed) -> None:
        self.of(Event.UNREADABLE, failure.record)
        way = self.chance.choice(["leave", "leave", "release", "accept"])
        if way != "leave":
            self.settle(failure.record, way)

    def settle(self, record: ShareRecord, way: str) -> bool:
        """Returns whether the record is settled by that, or too late for it."""
        try:
            if way == "accept":
                self.of(Event.ACCEPTS, record)
                record.accept()
            elif way == "reject":
                self.of(Event.REJECTS, record)
                record.reject()
            elif way == "renew":
                if self.orders.can_renew:
                    record.renew()
                return False
            else:
                record.release()
                self.of(Event.RELEASED, record)
        except AcknowledgeError:
            self.of(Event.TOO_LATE, record)
        return True

    def accept_all(self, batch: ShareBatch, rest: list[ShareRecord]) -> None:
        """Accept the batch, of which these records aren't settled."""
        for record in rest:
            self.of(Event.ACCEPTS, record)
        try:
            batch.accept()
        except AcknowledgeError:
            for record in rest:
                self.of(Event.TOO_LATE, record)
