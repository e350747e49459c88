"""Detects that the driver of a query's runner has ended.

A runner isn't notified when its driver is killed, nor when `spark.stop()` is called without `query.stop()`: then Spark
keeps asking it for offsets as long as the JVM runs. But a killed driver's children get another parent process, and a
context that stops removes the folder of its files.

The caller leaves the group.
"""

from __future__ import annotations

import os
from pathlib import Path


class DriverWatch:
    """Watches the driver. Must be created in the runner."""

    def __init__(self, context_folder: Path | None = None) -> None:
        self._parent = os.getppid()
        folder = context_folder or _context_folder()
        # The folder of a job, inside the context's, may not exist.
        candidates = [] if folder is None else [folder, folder.parent]
        self._folder = next((candidate for candidate in candidates if candidate.is_dir()), None)

    def reason_to_stop(self) -> str | None:
        """Why the runner should end; None while the driver is running."""
        if os.getppid() != self._parent:
            return "the driver is gone"
        if self._folder is not None and not self._folder.exists():
            return "its SparkContext was stopped"
        return None


def _context_folder() -> Path | None:
    """The folder that Spark passes to each Python process it starts; None in other processes."""
    from pyspark import SparkFiles

    folder = SparkFiles._root_directory if SparkFiles._is_running_on_worker else None
    return None if folder is None else Path(folder)
