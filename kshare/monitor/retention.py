"""Decides how close records that a group hasn't settled are to being removed by retention. Pure.

Brokers remove whole segments: by time once the newest record of a segment is too old, by size once what would remain is
still `retention.bytes`. So records may stay longer than computed here, but aren't removed sooner. The newest segment is
never removed by size.
"""

from __future__ import annotations

from dataclasses import dataclass

WARNING_FROM = 0.7
"""The part of the retention that is worth a warning."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What a topic's configuration says."""

    is_deleting: bool
    """Whether `cleanup.policy` includes delete. Otherwise nothing is removed for its age or size."""
    is_compacting: bool
    milliseconds: int | None
    """`retention.ms`; None if there is no limit."""
    size: int | None
    """`retention.bytes` of each partition; None if there is no limit."""

    @classmethod
    def of(cls, settings: dict[str, str | None]) -> Retention:
        policies = (settings.get("cleanup.policy") or "delete").replace(" ", "").split(",")
        return cls(
            "delete" in policies,
            "compact" in policies,
            _limit(settings.get("retention.ms")),
            _limit(settings.get("retention.bytes")),
        )


@dataclass(frozen=True, slots=True)
class Nearness:
    """How close the first unsettled record of a partition is to being removed."""

    part: float
    """How much of the retention is used up: 1 means that it may be removed at any time."""
    left: float | None
    """Seconds until then; None if it isn't known."""


def by_age(age: float, milliseconds: int) -> Nearness:
    """`age` is in seconds."""
    limit = milliseconds / 1000
    return Nearness(age / limit if limit > 0 else 1.0, max(0.0, limit - age))


def by_size(size: float, limit: int, growth: float | None) -> Nearness:
    """`size`: bytes from the first unsettled record on. `growth`: bytes a second; None if it isn't known."""
    left = max(0.0, limit - size) / growth if growth else None
    return Nearness(size / limit if limit > 0 else 1.0, left)


def bytes_from(start: int, first: int, end: int, size: int) -> float:
    """How many of the log's bytes are behind an offset, if all records are equally large."""
    return size * (end - start) / (end - first) if end > first else 0.0


def _limit(value: str | None) -> int | None:
    return int(value) if value and int(value) >= 0 else None
