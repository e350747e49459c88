"""Which processes run a stream's source, and whose they are."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def runners(whose: int | None = None) -> list[int]:
    """Of this test run alone, or of what one process of it has started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                if b"python_streaming_source_runner" in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
    return [pid for pid in found if (whose or os.getpid()) in ancestors(pid)]


def ancestors(pid: int) -> list[int]:
    """From the parent up; none where the process has just ended."""
    found = []
    with suppress(FileNotFoundError, ProcessLookupError):
        while pid > 1:
            pid = int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
            found.append(pid)
    return found


def is_running(pid: int) -> bool:
    """Whoever has ended and was only not fetched by its parent doesn't run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
