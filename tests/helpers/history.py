"""The history of a run: what was produced, delivered, accepted and confirmed, by which consumer, in which order.

Consumers and producers report what happens. At the end, the history reports these violations:

- a record was produced, but never delivered or never accepted;
- a record was delivered to any consumer after its acceptance had been confirmed;
- the offsets of a batch don't ascend, or belong to several partitions;
- a value changed, or a record was delivered that nobody produced.
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
    """The history of one topic. `consumer` is any name. A commit confirms only what that consumer accepted."""

    produced: dict[bytes, Place] = field(default_factory=dict)
    attempted: set[bytes] = field(default_factory=set)
    """Handed to the producer. If the broker didn't respond, the record may have been written or not."""
    delivered: Counter[Place] = field(default_factory=Counter)
    accepted: set[Place] = field(default_factory=set)
    confirmed: set[Place] = field(default_factory=set)
    redelivered: int = 0
    highest_count: int = 0
    """At the broker's limit a record is archived. A storm must stay well below it."""
    violations: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    """Descriptions of what was done to the cluster during the run."""
    unconfirmed: dict[tuple[str, int], set[Place]] = field(default_factory=dict)
    """By consumer and partition: records accepted since the consumer's last commit."""
    _values: dict[Place, bytes] = field(default_factory=dict)

    # --- reports from producers and consumers

    def on_attempt(self, value: bytes) -> None:
        self.attempted.add(value)

    def on_produced(self, value: bytes, place: Place) -> None:
        self.produced[value] = place

    def on_batch(self, batch: ShareBatch, records: Iterable[ShareRecord]) -> None:
        """`records` are those of the batch, in the order in which they were returned."""
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
        """`results` is from `commit`. Success confirms everything accepted in a partition since the previous commit."""
        waiting = [key for key in self.unconfirmed if key[0] == consumer]
        said = {number: error for (_, number), error in results.items()}
        for key in waiting:
            places = self.unconfirmed.pop(key)
            if key[1] in said and said[key[1]] is None:
                self.confirmed |= places

    # --- results

    @property
    def settled(self) -> int:
        """How many of the records that were certainly produced have been accepted."""
        return sum(place in self.accepted for place in self.produced.values())

    @property
    def duplicates(self) -> int:
        """The number of deliveries to users, without the first delivery of each record."""
        return self.delivered.total() - len(self.delivered)

    def problems(self) -> list[str]:
        """All violations."""
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
            f"(duplicates: {self.duplicates}; delivery counts up to {self.highest_count}), "
            f"accepted {len(self.accepted)}, confirmed {len(self.confirmed)}",
            *(
                self.problems()
                or ["nothing lost, nothing redelivered after its confirmation, every batch in order"]
            ),
        ]
        return "\n".join(lines)
