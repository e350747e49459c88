"""Checks whether a broker still responds, and collects evidence if it doesn't.

A broker whose request handlers are deadlocked keeps its sockets open, and accepts connections until its queue is full.
So the check sends requests that need the locks in question: DescribeCluster and ShareFetch.
"""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

from tools.kafka import requests
from tools.kafka.running import WatchedNode

RESPONSE_DEADLINE_S = 10.0
_ATTEMPTS = 2
"""How often to ask: on a busy machine, one response may be late."""
_DUMP_DEADLINE_S = 10.0
_POLL_S = 0.05
_DUMP_BEGINS, _DUMP_ENDS = b"Full thread dump", (b"JNI global refs", b"Heap\n")
_DEADLOCK = re.compile(r"^Found (.*deadlock.*)$", re.MULTILINE | re.IGNORECASE)


def complaint(node: WatchedNode, deadline: float | None = None) -> str | None:
    """Why this broker has to be replaced; None if it responds. `deadline` is for each response, in seconds."""
    limit = RESPONSE_DEADLINE_S if deadline is None else deadline
    problem = ""
    for _ in range(_ATTEMPTS):
        if not node.is_running:
            return "its process ended unexpectedly"
        try:
            requests.prove_responses(node.address(), limit)
        except OSError as error:
            problem = f"{error or type(error).__name__}"
        else:
            return None
    return f"it stopped responding ({problem}; asked {_ATTEMPTS} times, {limit:g} s each)"


def keep_evidence(node: WatchedNode, folder: Path) -> str:
    """Put its thread dump, its log and its settings into this folder. Returns a text about what the dump shows."""
    folder.mkdir(parents=True, exist_ok=True)
    dump = _thread_dump(node) if node.is_running else b""
    if dump:
        (folder / "threads.txt").write_bytes(dump)
    for source in (node.log, node.folder / "server.properties"):
        if source.exists():
            shutil.copy(source, folder)
    if not dump:
        return "it wrote no thread dump" if node.is_running else "its log says why"
    found = _DEADLOCK.search(dump.decode("utf-8", "replace"))
    return (
        f"its thread dump names a deadlock: {found[1].strip(' :')}" if found else "no deadlock in its threads"
    )


def _thread_dump(node: WatchedNode) -> bytes:
    """The thread dump that the broker writes to its log on request."""
    begin = node.log.stat().st_size if node.log.exists() else 0
    node.ask_for_threads()
    deadline = time.monotonic() + _DUMP_DEADLINE_S
    previous = b""
    while time.monotonic() < deadline:
        time.sleep(_POLL_S)
        with node.log.open("rb") as log:
            log.seek(begin)
            now = log.read()
        # Its last lines differ between Java releases, and more log lines may follow.
        is_whole = _DUMP_BEGINS in now and any(end in now for end in _DUMP_ENDS)
        if is_whole and now == previous:
            break
        previous = now
    return previous[max(0, previous.find(_DUMP_BEGINS)) :] if _DUMP_BEGINS in previous else b""
