"""Detects triggers that PySpark 4.0 and 4.1 don't support for sources in Python.

There, AvailableNow and Once ask such a source for one micro-batch, and never report that it is complete. So a query
must not start with them; but the source gets the same calls as in any other query. Only the stack of the Spark thread
that waits for our response tells them apart.

Decides nothing about records. If the JVM doesn't respond, the trigger stays unknown.
"""

from __future__ import annotations

import logging
import time

from pyspark import __version__

from kshare.errors import ConfigError
from kshare.spark.driver.waiting_queries import waiting_queries
from kshare.spark.jvm import driver_jvm, threads

log = logging.getLogger("kshare.spark")

_POLL_S = 0.05
_TRIES = 20
"""Other queries may be at the same point at the same moment. They soon leave it, while ours waits for us."""
_SINGLE = "SingleBatchExecutor."
"""Runs both triggers: for a source that doesn't support AvailableNow, that is a single micro-batch, too."""

REFUSAL = (
    f"PySpark {__version__} runs trigger(availableNow=True) and trigger(once=True) of a source in Python as one "
    "micro-batch that it never reports as complete: its records would not be acknowledged. Write "
    'trigger(processingTime="5 seconds") or leave the trigger out; or use PySpark 4.2 or newer'
)


def refuse_single_batches() -> None:
    """Raise ConfigError for these triggers. Must be called while Spark waits for the first offset of a query."""
    is_single = is_single_batch()
    if is_single:
        raise ConfigError(REFUSAL)
    if is_single is None:
        log.warning("the trigger of this query can't be determined. %s", REFUSAL)


def is_single_batch() -> bool | None:
    """Whether the query has one of these triggers; None if that can't be determined."""
    jvm = driver_jvm()
    if jvm is None:
        return None
    for _ in range(_TRIES):
        text = threads(jvm)
        if text is None:
            return None
        found = single_batches_in(text)
        if len(found) == 1:
            return found.pop()
        time.sleep(_POLL_S)
    return None


def single_batches_in(dump: str) -> set[bool]:
    """For all queries that wait for a source in Python: whether they have one of these triggers."""
    return {_SINGLE in query.stack for query in waiting_queries(dump)}
