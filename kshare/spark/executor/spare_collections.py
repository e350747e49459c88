"""Spares Spark's Python workers a garbage collection of all loaded modules after each task.

It takes 35 ms, at the same time as Spark commits the micro-batch: a fifth of a small one, if cores are few.
"""

from __future__ import annotations

import gc


def spare_collections() -> None:
    """Exclude the objects that exist now from later collections. Only the first call in a process does anything."""
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
