"""What happened to a query of a simulation: Spark's two logs, the sink, what the user decided, and what others read."""

from __future__ import annotations

from dataclasses import dataclass, field

Place = tuple[int, int]
"""Partition and offset."""


@dataclass
class Attempt:
    """One run of a micro-batch."""

    by: str
    """The process."""
    machine: int
    rows: list[Place]
    verdicts: dict[Place, str] = field(default_factory=dict)
    """What the user has decided for single rows, and was told that it is noted."""


@dataclass
class Batch:
    """A micro-batch in Spark's offset log. Its number is its index there."""

    token: str
    """What the log has, as JSON."""
    planned_at: float
    """When the query had been told what is in it. The one before it is complete then."""
    logged_at: float
    attempts: list[Attempt] = field(default_factory=list)
    rows: list[Place] | None = None
    """What the sink has: the rows of the first attempt that came so far."""
    committed: Attempt | None = None
    """The attempt after which it was in Spark's commit log."""
    committed_at: float = float("inf")
    is_redelivered: bool = False
    """Whether its rows may be emitted again: the user's decisions for some of them were on another machine."""


@dataclass
class History:
    batches: list[Batch] = field(default_factory=list)
    """Spark's offset log."""
    values: dict[Place, set[bytes]] = field(default_factory=dict)
    """What tasks have read."""
    others: set[Place] = field(default_factory=set)
    """What another consumer of the group has finished."""
    other_members: set[str] = field(default_factory=set)
    durable_at: dict[Place, float] = field(default_factory=dict)
    """When a record was in the journal for the first time."""
    broken: dict[str, list[str]] = field(default_factory=dict)
    """What was seen to be wrong when it happened, by kind."""

    def note_broken(self, kind: str, text: str) -> None:
        self.broken.setdefault(kind, []).append(text)

    @property
    def committed(self) -> set[Place]:
        """What is in complete micro-batches."""
        return {place for batch in self.batches if batch.committed for place in batch.rows or ()}
