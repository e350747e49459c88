"""The command line's options for every member: how many records, how many rounds, and which contenders."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wishes:
    """With None and (), the member's own defaults apply."""

    records: int | None = None
    rounds: int | None = None
    only: tuple[str, ...] = ()
    """Parts of names. Contenders without any of them are left out."""
    seconds: float | None = None
    """The duration, for members that watch a consumer instead of counting records."""
