"""Compares what a producer said of each record with what is in the log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kshare import BrokerError, DeliveryFailed, Produced
from kshare.producer.records import PendingSend


class Placed(Protocol):
    """A record as a reader found it in a partition."""

    @property
    def offset(self) -> int: ...

    @property
    def value(self) -> bytes | None: ...


@dataclass
class Fates:
    """What one producer said. Values are unique, and noted in the order in which they were enqueued."""

    noted: list[bytes] = field(default_factory=list)
    written: dict[bytes, Produced] = field(default_factory=dict)
    open: set[bytes] = field(default_factory=set)
    not_written: dict[bytes, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.written) + len(self.open) + len(self.not_written)

    async def note(self, value: bytes, send: PendingSend) -> None:
        """Wait for what is said of this record."""
        self.noted.append(value)
        await self.learn(value, send)

    async def learn(self, value: bytes, send: Awaitable[Produced]) -> None:
        """The same for a record that was noted when it was enqueued."""
        try:
            self.written[value] = await send
        except DeliveryFailed as failed:
            if failed.is_open:
                self.open.add(value)
            else:
                self.not_written[value] = str(failed)
        except BrokerError as refused:
            self.not_written[value] = str(refused)

    def contradictions(self, logs: Mapping[int, Iterable[Placed]]) -> list[str]:
        """What isn't so, given the records of each partition."""
        places: dict[bytes | None, list[tuple[int, int]]] = defaultdict(list)
        for partition, records in logs.items():
            for record in records:
                places[record.value].append((partition, record.offset))
        found = [
            f"{value!r} was not written ({reason}), and is at {places[value]}"
            for value, reason in self.not_written.items()
            if places[value]
        ]
        last: Counter[int] = Counter()
        for value in self.noted:
            produced = self.written.get(value)
            if produced is None:
                continue
            if places[value] != [(produced.partition, produced.offset)]:
                found.append(f"{value!r} was written, says {produced}, and is at {places[value]}")
            elif produced.offset < last[produced.partition]:
                found.append(f"{value!r} was written before an earlier record: {produced}")
            last[produced.partition] = produced.offset
        doubled = [value for value in self.noted if len(places[value]) > 1]
        return found + [f"{value!r} is there more than once: {places[value]}" for value in doubled]

    def __str__(self) -> str:
        return f"{len(self.written)} written, {len(self.not_written)} not written, {len(self.open)} open"
