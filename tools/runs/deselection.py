"""Leaves tests out of a run, and tells pytest, which counts them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def deselect(config: pytest.Config, items: list[pytest.Item], left_out: Iterable[pytest.Item]) -> None:
    """Remove these from the items."""
    out = dict.fromkeys(left_out)
    if out:
        config.hook.pytest_deselected(items=[*out])
        items[:] = [item for item in items if item not in out]
