"""Spark's workers collect garbage after each task: what is loaded is left out."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc
from kshare.spark.executor.spare_collections import spare_collections

class Node: ...

spare_collections()
frozen = gc.get_freeze_count()
assert frozen > 10_000, frozen
cycle = Node()
cycle.itself = cycle
del cycle
assert gc.collect(), "later garbage is collected as before"
spare_collections()
assert gc.get_freeze_count() <= frozen, "later objects are not frozen"
"""


def test_only_what_exists_at_the_first_task_is_left_out() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
