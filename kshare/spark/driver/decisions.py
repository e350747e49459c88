"""What is to be acknowledged, as `Custody` or the user has decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kshare.spark.driver.delayed_releases import Delayed
from kshare.spark.driver.offset_sets import PartitionRange

Verdict = Literal["reject", "release"]
Verdicts = Mapping[Verdict, Sequence[PartitionRange]]
"""The user's decisions for single rows."""


@dataclass(slots=True)
class Decisions:
    """What to acknowledge now, if it is still held."""

    accept: list[PartitionRange] = field(default_factory=list)
    release: list[PartitionRange] = field(default_factory=list)
    reject: list[PartitionRange] = field(default_factory=list)
    release_later: list[Delayed] = field(default_factory=list)
    """Rows that the user has released."""

    def __bool__(self) -> bool:
        return bool(self.accept or self.release or self.reject or self.release_later)
