"""What Spark doesn't tell a source: whether its query has a trigger that can't be used, or a temporary checkpoint.

While Spark waits for the response to a call of our own, our query is one of those whose threads wait for a source in
Python. The stacks of the JVM's threads show which trigger these have, and their names have the ids of the queries.

PySpark 4.0 and 4.1 don't support the triggers AvailableNow and Once for sources in Python: they ask such a source for
one micro-batch, and never report that it is complete. But the source gets the same calls as in any other query.

Without a checkpointLocation, Spark makes a temporary checkpoint for sinks such as console, memory and foreachBatch: the
folder `temporary-<uuid>` of the driver's JVM, which is deleted when the query stops. The source isn't told where the
checkpoint is, but the checkpoint contains the query's id.

Decides nothing about records. If the JVM doesn't respond, or several queries can't be told apart, it stays unknown.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pyspark import __version__

from kshare.errors import ConfigError
from kshare.spark.jvm import driver_jvm, properties, threads

log = logging.getLogger("kshare.spark")

_POLL_S = 0.05
_TRIES = 20
"""Other queries may be at the same point at the same moment. They soon leave it, while ours waits for us."""
_OURS = "PythonStreamingSourceRunner"
_THREAD = re.compile(r'^"stream execution thread for .*?(?=^"|\Z)', re.MULTILINE | re.DOTALL)
_ID = re.compile(r"\[id = ([^],]+)")
_SINGLE = "SingleBatchExecutor."
"""Runs both triggers: for a source that doesn't support AvailableNow, that is a single micro-batch, too."""

REFUSAL = (
    f"PySpark {__version__} runs trigger(availableNow=True) and trigger(once=True) of a source in Python as one "
    "micro-batch that it never reports as complete: its records would not be acknowledged. Write "
    'trigger(processingTime="5 seconds") or leave the trigger out; or use PySpark 4.2 or newer'
)


class WaitingQuery(NamedTuple):
    id: str
    """As in the file `metadata` of its checkpoint."""
    is_single_batch: bool
    """Whether it has the trigger AvailableNow or Once."""


def refuse_single_batches() -> None:
    """Raise ConfigError for these triggers. Must be called while Spark waits for the first offset of a query."""
    is_single = is_single_batch()
    if is_single:
        raise ConfigError(REFUSAL)
    if is_single is None:
        log.warning("the trigger of this query can't be determined. %s", REFUSAL)


def is_single_batch() -> bool | None:
    """Whether the query has one of these triggers; None if that can't be determined."""
    for queries in _looks(driver_jvm()):
        if queries is None:
            return None
        found = {query.is_single_batch for query in queries}
        if len(found) == 1:
            return found.pop()
    return None


def has_temporary_checkpoint() -> bool | None:
    """Whether the query has one. Must be called while Spark waits for a response, in the query's first micro-batch."""
    jvm = driver_jvm()
    folder = (properties(jvm) or {}).get("java.io.tmpdir") if jvm is not None else None
    if folder is None:
        return None
    for queries in _looks(jvm):
        waiting = {query.id for query in queries or ()}
        temporary = new_temporary_checkpoints(Path(folder))
        if not waiting & temporary:
            return False
        if waiting <= temporary:
            return True
    return None


def _looks(jvm: int | None) -> Iterator[list[WaitingQuery] | None]:
    """The queries that wait, several times; None if the JVM doesn't respond."""
    if jvm is None:
        return
    for _ in range(_TRIES):
        dump = threads(jvm)
        yield None if dump is None else waiting_queries(dump)
        time.sleep(_POLL_S)


def waiting_queries(dump: str) -> list[WaitingQuery]:
    """Those in a dump of all threads, in the format of `jstack`."""
    found = []
    for thread in _THREAD.findall(dump):
        head, _, stack = thread.partition("\n")
        if _OURS in stack:
            found.append(WaitingQuery((_ID.findall(head) or [""])[-1], _SINGLE in stack))
    return found


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
