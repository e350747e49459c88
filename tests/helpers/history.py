"""The whole history of a run: what was produced, delivered, accepted and confirmed, by whom and in which order.

Consumers and producers tell it what happens; afterwards it judges. What must never happen:

- a record that was produced was never delivered, or never accepted;
- a record was delivered again after its acceptance had been confirmed, to anybody;
- within a batch, offsets don't ascend, or belong to several partitions;
- a value changed on its way, or a record came that nobody produced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kshare import KshareError
from kshare.client.record import ShareBatch, ShareRecord

Place = tuple[int, int]
"""Partition and offset."""
_SHOWN = 5


@dataclass
class History:
    """Of one topic. `consumer` is any name; a consumer's confirmations concern what it accepted itself."""

    produced: dict[bytes, Place] = field(default_factory=dict)
    attempted: set[bytes] = field(default_factory=set)
    """Handed to the producer. Without a word from the broker a record may or may not be there."""
    delivered: Counter[Place] = field(default_factory=Counter)
    accepted: set[Place] = field(default_factory=set)
    confirmed: set[Place] = field(default_factory=set)
    redelivered: int = 0
    highest_count: int = 0
    """Beyond the broker's limit a record is given up; a storm must not come near it by itself."""
    violations: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    """What was done to the cluster meanwhile, in words."""
    unconfirmed: dict[tuple[str, int], set[Place]] = field(default_factory=dict)
    """By consumer and partition: accepted since its last commit."""
    _values: dict[Place, bytes] = field(default_factory=dict)

    # --- what happens

    def on_attempt(self, value: bytes) -> None:
        self.attempted.add(value)

    def on_produced(self, value: bytes, place: Place) -> None:
        self.produced[value] = place

    def on_batch(self, batch: ShareBatch, records: Iterable[ShareRecord]) -> None:
        """Its records, as they were handed out."""
        places = [(record.partition, record.offset) for record in records]
        if places != sorted(set(places)) or {partition for partition, _ in places} - {batch.partition}:
            self.violations.append(f"{batch!r} isn't in order: {places[:_SHOWN]}")

    def on_delivered(self, consumer: str, record: ShareRecord) -> None:
        place, value = (record.partition, record.offset), record.value or b""
        if place in self.confirmed:
            self.violations.append(
                f"{consumer} got {place} (delivery {record.delivery_count}), accepted and confirmed before"
            )
        if self._values.setdefault(place, value) != value or value not in self.attempted:
            self.violations.append(f"{consumer} got {value!r} at {place}, which nobody produced there")
        self.delivered[place] += 1
        self.redelivered += record.redelivered
        self.highest_count = max(self.highest_count, record.delivery_count)

    def on_accepted(self, consumer: str, record: ShareRecord) -> None:
        place = (record.partition, record.offset)
        self.accepted.add(place)
        self.unconfirmed.setdefault((consumer, record.partition), set()).add(place)

    def on_committed(self, consumer: str, results: Mapping[tuple[str, int], KshareError | None]) -> None:
        """What `commit` answered: success speaks for everything of a partition since the commit before."""
        waiting = [key for key in self.unconfirmed if key[0] == consumer]
        said = {number: error for (_, number), error in results.items()}
        for key in waiting:
            places = self.unconfirmed.pop(key)
            if key[1] in said and said[key[1]] is None:
                self.confirmed |= places

    # --- what is to be said of it

    @property
    def settled(self) -> int:
        """How many of the records that are known to be produced were accepted."""
        return sum(place in self.accepted for place in self.produced.values())

    @property
    def duplicates(self) -> int:
        """Deliveries beyond the first that users saw."""
        return self.delivered.total() - len(self.delivered)

    def problems(self) -> list[str]:
        """Empty when all is well."""
        found = list(self.violations)
        for what, places in (("delivered", self.delivered), ("accepted", self.accepted)):
            missing = sorted(place for place in self.produced.values() if place not in places)
            if missing:
                found.append(
                    f"{len(missing)} records were produced and never {what}, such as {missing[:_SHOWN]}"
                )
        return found

    def report(self) -> str:
        lines = [
            *(f"- {event}" for event in self.events),
            f"produced {len(self.produced)}, delivered {len(self.delivered)} "
            f"(again: {self.duplicates}; delivery counts up to {self.highest_count}), "
            f"accepted {len(self.accepted)}, confirmed {len(self.confirmed)}",
            *(
                self.problems()
                or ["nothing lost, nothing again after its confirmation, every batch in order"]
            ),
        ]
        return "\n".join(lines)
