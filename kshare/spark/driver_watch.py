"""Whether the driver that a query's runner works for is still at it.

Nobody tells a runner when its driver was killed, nor when `spark.stop()` was called without `query.stop()`: Spark goes
on asking it for offsets then, as long as the JVM lives. But a killed driver's children are given to another parent, and
a context that stops removes the folder of its files.

Decides that and nothing else; whoever asks leaves the group.
"""

from __future__ import annotations

import os
from pathlib import Path


class DriverWatch:
    """From now on; made in the runner."""

    def __init__(self, context_folder: Path | None = None) -> None:
        self._parent = os.getppid()
        folder = context_folder or _context_folder()
        # A job's own folder within the context's may not be there.
        candidates = [] if folder is None else [folder, folder.parent]
        self._folder = next((one for one in candidates if one.is_dir()), None)

    def what_happened(self) -> str | None:
        """None while all is well."""
        if os.getppid() != self._parent:
            return "the driver is gone"
        if self._folder is not None and not self._folder.exists():
            return "its SparkContext was stopped"
        return None


def _context_folder() -> Path | None:
    """Spark tells every Python process that it starts; None in others, and where Spark doesn't say."""
    from pyspark import SparkFiles

    folder = SparkFiles._root_directory if SparkFiles._is_running_on_worker else None
    return None if folder is None else Path(folder)
