"""At which step each run of a query ends, and which process is killed; and the ledger to which all processes write.

Only decides what happens in a storm. Doesn't kill processes itself.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

Step = Literal[
    "planned", "logged", "read", "written", "committed", "asking", "answering", "appending", "appended"
]
Victim = Literal["runner", "driver", "both", "sink", "task"]
"""The source's process; Spark's JVM with its Python; both; or none, but the sink or a task raises an exception."""

RUNNER_STEPS: tuple[Step, ...] = ("planned", "logged", "committed", "asking", "answering")
SINK_STEPS: tuple[Step, ...] = ("read", "written")
STEPS: tuple[Step, ...] = ("planned", "logged", "read", "written", "committed", "asking", "answering")
JOURNAL_STEPS: tuple[Step, ...] = (*STEPS, "appending", "appended")
"""With `settle=journal`: while a frame is being written, and when it is durable, before its records are accepted."""
VICTIMS: tuple[Victim, ...] = ("runner", "driver", "both", "sink", "task")
WITH_SPARK: tuple[Victim, ...] = ("driver", "both")


@dataclass(frozen=True, slots=True)
class Fate:
    """How one run of the query ends. Without a step, the query drains the topic, and ends normally."""

    number: int
    step: Step | None = None
    victim: Victim = "runner"
    after: int = 0
    """How many micro-batches are planned before, so that there is progress."""
    seed: int = 0

    @classmethod
    def of(cls, told: dict[str, Any]) -> Fate:
        return cls(**told)

    def told(self) -> dict[str, Any]:
        return asdict(self)


def fates(random: Random, with_spark: int, steps: tuple[Step, ...] = STEPS) -> list[Fate]:
    """In random order: kills of the runner at every step, failures without a kill, and `with_spark` kills of Spark."""
    chosen: list[tuple[Step, Victim]] = [("read", "sink"), ("written", "sink"), ("read", "task")]
    chosen += [(step, "runner") for step in steps]
    chosen += [(step, random.choice(WITH_SPARK)) for step in random.sample(steps, with_spark)]
    random.shuffle(chosen)
    found = [
        Fate(number, step, victim, random.randrange(3), random.randrange(1000))
        for number, (step, victim) in enumerate(chosen)
    ]
    return [*found, Fate(len(found))]


class Ledger:
    """A file of JSON lines, which survives the processes that write to it. `at` is the time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ledger"

    def report(self, event: str, **more: Any) -> None:
        line = json.dumps({"event": event, "at": time.time(), **more})
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, line.encode() + b"\n")
        finally:
            os.close(file)

    def read(self, *events: str) -> list[dict[str, Any]]:
        """What was reported so far. A line that is just being written is left for the next call."""
        if not self._path.exists():
            return []
        *lines, _unfinished = self._path.read_text(encoding="utf-8").split("\n")
        return [found for found in map(json.loads, lines) if found["event"] in events]
