"""Defects to plant: mistakes that a programmer of this client could make, as patches made in memory.

The simulations have to find each: a judge that doesn't is blind for a kind of mistake. Needs `KSHARE_FAST=0`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Defect(NamedTuple):
    plant: Callable[[], None]
    world: str
    finding: str
    """Which of the judge's findings it has to cause."""
    what: str
    """What the client does then, in a few words."""
    seed: int
    """One that finds it, or the first of a few."""
    has_changes: bool = False
    """Whether the seed is simulated with `--changes`."""

    @property
    def name(self) -> str:
        return self.plant.__name__


def replace(owner: Any, name: str, what: Any) -> None:
    """`what` is there already: otherwise the patch does nothing."""
    assert hasattr(owner, name), f"{owner} has no {name}"
    setattr(owner, name, what)


def nothing(*arguments: Any, **options: Any) -> None:
    """Instead of something that is forgotten."""
