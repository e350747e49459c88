"""How much memory processes take."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def most_mib(pid: int) -> float:
    """The most memory that a process has had so far; 0 where the system doesn't say, or if the process has ended."""
    lines: list[str] = []
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
