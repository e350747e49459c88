"""Finds the processes that run a stream's source."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def runners(whose: int | None = None) -> list[int]:
    """Processes that run sources, and that this test run, or one process of it, has started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                if b"python_streaming_source_runner" in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
    return [pid for pid in found if (whose or os.getpid()) in ancestors(pid)]


def ancestors(pid: int) -> list[int]:
    """The parent, its parent, and so on. Empty if the process has just ended."""
    found = []
    with suppress(FileNotFoundError, ProcessLookupError):
        while pid > 1:
            pid = int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
            found.append(pid)
    return found


def is_running(pid: int) -> bool:
    """Zombies don't count as running."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
