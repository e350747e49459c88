"""One run of a query in a storm, as a process that can be killed. Its logs and its sink are files.

    python -m tests.spark.storm_driver FOLDER '{"bootstrap": …, "crash": "logged", "after": 3}'

Drives the source as Spark does (see `driven`). It kills itself at the chosen step of the chosen batch. Without a step,
it ends when the file `enough` exists and nothing is left to do.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any
from unittest import mock

from kshare.errors import KshareError
from kshare.spark.journal.journal import Journal
from kshare.spark.options import ReadOptions
from kshare.spark.source import ShareStreamReader

STEPS = ("planned", "logged", "read", "written", "committed", "asking", "answering")
"""The last two are when `latestOffset` has just been called, so acceptances are sent, and a moment later, when they are
confirmed."""
JOURNAL_STEPS = (*STEPS, "appending", "appended")
"""With `settle=journal`: while a frame is being written, and when it is durable, before its records are accepted."""
SUSPENDED = "suspended"
"""Not a crash: the process stops at a step that the seed chooses, and goes on when another one has taken its place."""


class Life:
    """One run of the query."""

    def __init__(self, folder: Path, told: dict[str, Any]) -> None:
        self.offsets, self.commits, self.sink = (folder / name for name in ("offsets", "commits", "sink"))
        self.enough = folder / "enough"
        self.told = told
        self.batches = 0
        given = {
            "kafka.bootstrap.servers": told["bootstrap"],
            "group": told["group"],
            "subscribe": told["topic"],
            "settle": told["settle"],
            "maxRecordsPerTrigger": str(told["max"]),
            "maxWaitMs": "200",
            **told.get("options", {}),
        }
        self.reader = ShareStreamReader(ReadOptions.parse(given, is_streaming=True))

    def run(self) -> None:
        last = self.last()
        if last >= 0 and not (self.commits / str(last)).exists():
            self.run_batch(last)
        idle = 0
        while idle < 10 or not self.enough.exists():
            idle = 0 if self.trigger() else idle + 1
            write(self.enough.with_name("progress"), self.reader.reportLatestOffset())
        self.reader.stop()

    def trigger(self) -> bool:
        last = self.last()
        start = self.offset(last)
        self.at("asking")
        end = self.reader.latestOffset(start, None)
        if end == start:
            return bool((self.reader.reportLatestOffset() or {}).get("owed"))
        self.at("planned")
        write_new(self.offsets / str(last + 1), end)
        self.at("logged")
        if last >= 0:
            self.reader.commit(start)
        self.run_batch(last + 1)
        self.batches += 1
        return True

    def run_batch(self, batch: int) -> None:
        rows: list[tuple[int, int]] = []
        for part in self.reader.partitions(self.offset(batch - 1), self.offset(batch)):
            for found in self.reader.read(part):
                rows += zip(
                    *(found.column(name).to_pylist() for name in ("partition", "offset")), strict=True
                )
        self.at("read")
        path = self.sink / str(batch)
        if path.exists():
            if sorted(map(tuple, json.loads(path.read_text()))) != sorted(rows):
                write(self.sink.parent / f"another-{batch}", rows)
        else:
            write(path, rows)
        self.at("written")
        write(self.commits / str(batch), {})
        self.at("committed")

    def last(self) -> int:
        return max((int(path.name) for path in self.offsets.iterdir() if path.name.isdecimal()), default=-1)

    def offset(self, batch: int) -> dict[str, Any]:
        if batch < 0:
            return self.reader.initialOffset()
        found: dict[str, Any] = json.loads((self.offsets / str(batch)).read_text())
        return found

    def at(self, step: str) -> None:
        if self.batches < self.told.get("after", 0):
            return
        crash = self.told.get("crash")
        if crash == SUSPENDED and step == JOURNAL_STEPS[self.told["seed"] % len(JOURNAL_STEPS)]:
            self.told["crash"] = None
            os.kill(os.getpid(), signal.SIGSTOP)
        if crash == step == "appending":
            threading.Timer(0.0005 * (1 + self.told["seed"] % 10), die).start()
            return
        if crash == step == "asking":
            threading.Timer(0.002 * (1 + self.told["seed"] % 10), die).start()
        elif crash == "answering" and step == "asking":
            threading.Timer(0.01 + 0.005 * (self.told["seed"] % 20), die).start()
        elif crash == step:
            die()


def watch_the_journal(life: Life) -> None:
    """Steps that aren't calls of Spark."""
    append = Journal.append

    async def watched(journal: Journal, *arguments: Any) -> None:
        life.at("appending")
        await append(journal, *arguments)
        life.at("appended")

    mock.patch.object(Journal, "append", watched).start()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def write(path: Path, value: object) -> None:
    """Write the file atomically."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value))
    partial.rename(path)


def write_new(path: Path, value: object) -> None:
    """The same, unless it exists: as in Spark's offset log, only one of two drivers gets a batch."""
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps(value))
    try:
        os.link(partial, path)
    except FileExistsError:
        sys.exit("another driver has written the next batch to the offset log")
    finally:
        partial.unlink()


if __name__ == "__main__":
    try:
        life = Life(Path(sys.argv[1]), json.loads(sys.argv[2]))
        watch_the_journal(life)
        life.run()
    except KshareError as error:
        sys.exit(f"{type(error).__name__}: {error}")
