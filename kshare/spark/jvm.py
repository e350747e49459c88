"""Asks the driver's JVM about itself: the stacks of its threads, and its system properties.

Spark starts the Python processes of a source without a SparkContext. But they run on the driver, as the same user, and
HotSpot serves such processes as it serves `jstack` and `jinfo`: on a socket in /tmp, once it is asked to listen.

The only way to ask is SIGQUIT, which `jstack` sends as well; a JVM that listens already gets none, nor does one that
doesn't catch it, which it would end. Spark offers nothing in its place: its processes for sources have no port of Py4J,
the streaming protocol has calls of Spark only, and the pages of its UI may be switched off or need a password.

If the JVM doesn't respond, the response is None.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TIMEOUT_S = 5.0
_POLL_S = 0.05
_RESPONSE_S = 10.0
_LINE = re.compile(r"(?<!\\)[=:]")


def driver_jvm() -> int | None:
    """The process id of the nearest ancestor that is a JVM."""
    pid = os.getppid()
    with suppress(OSError, ValueError, IndexError):
        while pid > 1:
            if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == "java":
                return pid
            pid = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    return None


def threads(jvm: int) -> str | None:
    """The stacks of all threads, as `jstack` prints them."""
    return _ask(jvm, "threaddump")


def properties(jvm: int) -> dict[str, str] | None:
    """The system properties, which include the options that Spark was started with."""
    text = _ask(jvm, "properties")
    return None if text is None else parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """Read what `java.util.Properties` writes. Only the escapes that occur in options of Spark are undone."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        parts = _LINE.split(line, maxsplit=1)
        if len(parts) == 2 and not line.startswith("#"):
            name, value = (re.sub(r"\\([=: #!\\])", r"\1", part) for part in parts)
            found[name] = value
    return found


def _ask(jvm: int, command: str) -> str | None:
    address = Path(f"/proc/{jvm}/root/tmp/.java_pid{jvm}")
    try:
        if not address.exists() and not _start_listening(jvm, address):
            return None
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(_RESPONSE_S)
            line.connect(str(address))
            line.sendall(b"1\0" + command.encode() + b"\0\0\0\0")
            response = b"".join(_received(line))
    except OSError:
        return None
    code, _, text = response.partition(b"\n")
    return text.decode("utf-8", "replace") if code == b"0" else None


def _start_listening(jvm: int, address: Path) -> bool:
    """Make the JVM listen: it looks for the file only when it gets the signal.

    Measured on Java 17 and 25: nothing listens 4 s after the file was made, and 10 ms after the signal something does.
    With -XX:+StartAttachListener or -Xrs, the JVM listens from its start.
    """
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
