"""Writes down every change: who, what, when, and how it ended. Without that, no change is made.

A line of JSON before the change, and another after it: of a change that was interrupted, there is only the first.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, TextIO

from kshare.errors import ConfigError

log = logging.getLogger("kshare.web.audit")


class AuditLog:
    """Writes to a file, or to the log `kshare.web.audit` if there is none."""

    def __init__(self, path: Path | None) -> None:
        """Raises ConfigError if the file can't be written."""
        self._path = path
        self._lock = Lock()
        if path is not None:
            try:
                _append(path).close()
            except OSError as error:
                raise ConfigError(f"the audit log {path} can't be written: {error.strerror}") from None

    @asynccontextmanager
    async def change(
        self, user: str, action: str, target: str, **details: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Raises OSError, before the change, if the file can't be written.

        What is put into the yielded details during the change is part of the line after it.
        """
        self._write(user, action, target, "begun", details)
        try:
            yield details
        except BaseException as error:
            self._write(user, action, target, f"failed: {type(error).__name__}: {error}", details)
            raise
        self._write(user, action, target, "done", details)

    def _write(self, user: str, action: str, target: str, outcome: str, details: dict[str, Any]) -> None:
        line = json.dumps(
            {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "user": user,
                "action": action,
                "target": target,
                "outcome": outcome,
                **details,
            },
            default=str,
        )
        if self._path is None:
            log.warning("%s", line)
            return
        with self._lock, _append(self._path) as file:
            file.write(line + "\n")


def _append(path: Path) -> TextIO:
    """A file that doesn't exist is created for its owner alone: it has names and addresses of users."""
    return open(path, "a", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))
