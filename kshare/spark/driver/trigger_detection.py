"""Detects triggers that PySpark 4.0 and 4.1 don't support for sources in Python.

There, AvailableNow and Once ask such a source for one micro-batch, and never report that it is complete. So a query
must not start with them; but the source gets the same calls as in any other query. Only the stack of the Spark thread
that waits for our response tells them apart. The driver's JVM shows it to programs of the same user, as `jstack` does:
HotSpot listens on a socket in /tmp once it is asked to.

Decides nothing about records. If the JVM doesn't respond, the trigger stays unknown.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pyspark import __version__

from kshare.errors import ConfigError

log = logging.getLogger("kshare.spark")

_TIMEOUT_S = 5.0
_POLL_S = 0.05
_ANSWER_S = 10.0
_TRIES = 20
"""Other queries may be at the same point at the same moment. They soon leave it, while ours waits for us."""
_OURS = "PythonStreamingSourceRunner"
_SINGLE = "SingleBatchExecutor."
"""Runs both triggers: for a source that doesn't support AvailableNow, that is a single micro-batch, too."""
_THREAD = re.compile(r'^"stream execution thread for .*?(?=^"|\Z)', re.MULTILINE | re.DOTALL)

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
    jvm = _jvm()
    if jvm is None:
        return None
    for _ in range(_TRIES):
        text = _threads(jvm)
        if text is None:
            return None
        found = single_batches_in(text)
        if len(found) == 1:
            return found.pop()
        time.sleep(_POLL_S)
    return None


def single_batches_in(dump: str) -> set[bool]:
    """For all queries that wait for a source in Python: whether they have one of these triggers."""
    return {_SINGLE in stack for stack in _THREAD.findall(dump) if _OURS in stack}


def _jvm() -> int | None:
    """The process id of the nearest ancestor that is a JVM."""
    pid = os.getppid()
    with suppress(OSError, ValueError, IndexError):
        while pid > 1:
            if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == "java":
                return pid
            pid = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    return None


def _threads(jvm: int) -> str | None:
    """The stacks of all threads, as `jstack` prints them."""
    address = Path(f"/proc/{jvm}/root/tmp/.java_pid{jvm}")
    try:
        if not address.exists() and not _start_listening(jvm, address):
            return None
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(_ANSWER_S)
            line.connect(str(address))
            line.sendall(b"1\0threaddump\0\0\0\0")
            reply = b"".join(_received(line))
    except OSError:
        return None
    code, _, text = reply.partition(b"\n")
    return text.decode("utf-8", "replace") if code == b"0" else None


def _start_listening(jvm: int, address: Path) -> bool:
    """Make the JVM listen, by a file and a signal. A JVM that doesn't catch the signal would end, so it gets none."""
    if not _catches_signal(jvm, signal.SIGQUIT):
        return False
    invitation = Path(f"/proc/{jvm}/root/tmp/.attach_pid{jvm}")
    invitation.touch(mode=0o600)
    try:
        os.kill(jvm, signal.SIGQUIT)
        deadline = time.monotonic() + _TIMEOUT_S
        while not address.exists() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return address.exists()
    finally:
        invitation.unlink(missing_ok=True)


def _catches_signal(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    match = re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)
    return match is not None and bool(int(match.group(1), 16) >> (number - 1) & 1)


def _received(line: socket.socket) -> Iterator[bytes]:
    while chunk := line.recv(1 << 16):
        yield chunk
