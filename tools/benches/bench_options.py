"""What the command line asks of every member: how much, how often, and which contenders."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wishes:
    """None and () leave it to the member."""

    records: int | None = None
    rounds: int | None = None
    only: tuple[str, ...] = ()
    """Parts of names: contenders without any of them are left out."""
    seconds: float | None = None
    """For members that watch rather than count."""
