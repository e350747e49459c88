"""Notices changes of source files, by their modification times."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path


def modified_ns(path: str) -> int | None:
    """None if the file doesn't exist."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return None


class SourceFiles:
    def __init__(self, modified: Callable[[str], int | None] = modified_ns) -> None:
        self._modified = modified
        self._seen: dict[str, int | None] = {}

    def watch(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._seen.setdefault(path, self._modified(path))

    def changed(self) -> list[str]:
        """The files that have changed since the last call. One that vanishes hasn't: editors replace files."""
        found = []
        for path, before in self._seen.items():
            now = self._modified(path)
            if now is not None and now != before:
                self._seen[path] = now
                found.append(path)
        return found
