"""Where a life of a query is to end, and who dies there; and the ledger in which all processes write what happened.

Decides what a storm goes through. Kills nobody itself.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

Step = Literal["planned", "logged", "read", "written", "committed", "asking", "answering"]
Victim = Literal["runner", "driver", "both", "sink", "task"]
"""The source's process; Spark's JVM with its Python; all of these; or nobody, but an exception is raised."""

RUNNER_STEPS: tuple[Step, ...] = ("planned", "logged", "committed", "asking", "answering")
SINK_STEPS: tuple[Step, ...] = ("read", "written")
STEPS: tuple[Step, ...] = ("planned", "logged", "read", "written", "committed", "asking", "answering")
VICTIMS: tuple[Victim, ...] = ("runner", "driver", "both", "sink", "task")
WITH_SPARK: tuple[Victim, ...] = ("driver", "both")


@dataclass(frozen=True, slots=True)
class Fate:
    """Of one start of the query. Without a step it drains the topic, and ends in good order."""

    number: int
    step: Step | None = None
    victim: Victim = "runner"
    after: int = 0
    """Micro-batches that are planned before, so that something gets done."""
    seed: int = 0

    @classmethod
    def of(cls, told: dict[str, Any]) -> Fate:
        return cls(**told)

    def told(self) -> dict[str, Any]:
        return asdict(self)


def fates(random: Random, with_spark: int) -> list[Fate]:
    """In any order: the runner at every step, what fails without a kill, and so many steps that take Spark along."""
    chosen: list[tuple[Step, Victim]] = [("read", "sink"), ("written", "sink"), ("read", "task")]
    chosen += [(step, "runner") for step in STEPS]
    chosen += [(step, random.choice(WITH_SPARK)) for step in random.sample(STEPS, with_spark)]
    random.shuffle(chosen)
    found = [
        Fate(number, step, victim, random.randrange(3), random.randrange(1000))
        for number, (step, victim) in enumerate(chosen)
    ]
    return [*found, Fate(len(found))]


class Ledger:
    """Lines of JSON that survive whoever wrote them; `at` is the time."""

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
        if not self._path.exists():
            return []
        lines = self._path.read_text(encoding="utf-8").splitlines()
        return [found for found in map(json.loads, lines) if found["event"] in events]
