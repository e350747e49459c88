"""Detects that a query has no checkpointLocation, so that Spark has made a temporary checkpoint.

Spark does that for sinks such as console, memory and foreachBatch: the folder `temporary-<uuid>` of the driver's JVM,
which is deleted when the query stops. The source isn't told where the checkpoint is. But the checkpoint contains the
query's id, and the Spark thread that waits for our response has the id in its name.

If the JVM doesn't respond, or several new queries can't be told apart, it stays unknown.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

from kshare.spark.driver.waiting_queries import waiting_queries
from kshare.spark.jvm import driver_jvm, properties, threads

_POLL_S = 0.05
_TRIES = 20
"""Other queries may wait at the same moment, while ours waits for us."""


def has_temporary_checkpoint() -> bool | None:
    """Whether the query has one. Must be called while Spark waits for a response, in the query's first micro-batch."""
    jvm = driver_jvm()
    folder = (properties(jvm) or {}).get("java.io.tmpdir") if jvm is not None else None
    if jvm is None or folder is None:
        return None
    for _ in range(_TRIES):
        waiting = {query.id for query in waiting_queries(threads(jvm) or "")}
        temporary = new_temporary_checkpoints(Path(folder))
        if not waiting & temporary:
            return False
        if waiting <= temporary:
            return True
        time.sleep(_POLL_S)
    return None


def new_temporary_checkpoints(folder: Path) -> set[str]:
    """The ids of queries with temporary checkpoints in this folder that haven't completed a micro-batch."""
    found = set()
    for metadata in folder.glob("temporary-*/metadata"):
        # Queries that end delete theirs at any moment.
        with suppress(OSError, ValueError, LookupError, TypeError):
            query = str(json.loads(metadata.read_text(encoding="utf-8"))["id"])
            if not (metadata.parent / "commits" / "0").exists():
                found.add(query)
    return found
