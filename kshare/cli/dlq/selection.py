"""Selects dead letters by origin, group, reason, time or position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import typer

from kshare.cli.dlq.dead_letter import DeadLetter
from kshare.cli.terminal.times import written_time


@dataclass(frozen=True, slots=True)
class Selection:
    """All given criteria must match; of several values of one criterion, any may match."""

    sources: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    reasons: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    """Milliseconds since 1970, exclusive."""
    places: frozenset[tuple[int, int]] = frozenset()

    def wants(self, letter: DeadLetter) -> bool:
        source = letter.origin.topic if letter.origin else None
        reason = (letter.reason or "").casefold()
        return (
            (not self.sources or source in self.sources)
            and (not self.groups or letter.group in self.groups)
            and (not self.reasons or any(one.casefold() in reason for one in self.reasons))
            and (self.since is None or letter.timestamp >= self.since)
            and (self.until is None or letter.timestamp < self.until)
            and (not self.places or (letter.partition, letter.offset) in self.places)
        )


def selection(
    sources: Sequence[str] | None,
    groups: Sequence[str] | None,
    reasons: Sequence[str] | None,
    since: str | None,
    until: str | None,
    letters: Sequence[str] | None,
) -> Selection:
    """From the options of the command line."""
    return Selection(
        frozenset(sources or ()),
        frozenset(groups or ()),
        tuple(reasons or ()),
        _milliseconds("--since", since),
        _milliseconds("--until", until),
        frozenset(_place(one) for one in letters or ()),
    )


def _place(written: str) -> tuple[int, int]:
    partition, _, offset = written.partition(":")
    try:
        return int(partition), int(offset)
    except ValueError:
        raise typer.BadParameter(f"--letter {written}: write PARTITION:OFFSET, as in 0:17") from None


def _milliseconds(option: str, written: str | None) -> int | None:
    return None if written is None else int(written_time(option, written).timestamp() * 1000)
