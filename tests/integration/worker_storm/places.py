"""Where a storm takes place: what its processes are told on their command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

from tests.integration.worker_storm.fates import Plan


@dataclass(frozen=True)
class Places:
    bootstrap: str
    group: str
    plain: str
    """The topic whose records are processed in any order."""
    ordered: str
    """The topic whose records are processed in the order of each key."""
    dead: str
    lock_s: float
    plan: Plan

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        said = json.loads(text)
        return cls(**{**said, "plan": Plan(**said["plan"])})
