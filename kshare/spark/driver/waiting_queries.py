"""The streaming queries that wait for a source in Python, by the stacks of the JVM's threads.

While Spark waits for the response to a call of our own, the query that we belong to is one of them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_OURS = "PythonStreamingSourceRunner"
_THREAD = re.compile(r'^"stream execution thread for .*?(?=^"|\Z)', re.MULTILINE | re.DOTALL)
_ID = re.compile(r"\[id = ([^],]+)")


class WaitingQuery(NamedTuple):
    id: str
    """As in the file `metadata` of its checkpoint."""
    stack: str


def waiting_queries(dump: str) -> list[WaitingQuery]:
    """Those in a dump of all threads, in the format of `jstack`."""
    found = []
    for thread in _THREAD.findall(dump):
        head, _, stack = thread.partition("\n")
        if _OURS in stack:
            found.append(WaitingQuery((_ID.findall(head) or [""])[-1], stack))
    return found
