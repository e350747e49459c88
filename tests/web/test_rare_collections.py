"""Python doesn't start full collections by itself meanwhile; cyclic garbage is still collected."""

from __future__ import annotations

import gc
import weakref

from kshare.web.rare_collections import rare_collections
from tests.helpers.consoles import eventually


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def old_garbage() -> weakref.ref[Cycle]:
    """A cycle that only a full collection finds."""
    cycle = Cycle()
    gc.collect()
    return weakref.ref(cycle)


def test_full_collections_are_seldom_and_thresholds_come_back() -> None:
    before = gc.get_threshold()
    with rare_collections():
        found = old_garbage()
        full = gc.get_stats()[2]["collections"]
        kept = [[number] for number in range(300_000)]  # usually enough for several
        assert gc.get_stats()[2]["collections"] == full
        assert found() is not None
    assert gc.get_threshold() == before
    assert len(kept) == 300_000


def test_cyclic_garbage_is_collected() -> None:
    with rare_collections(least_pause_s=1.0):  # the second comes much later
        found = old_garbage()
        eventually(lambda: found() is None, bool)
