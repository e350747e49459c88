"""All systems that are explored, and their sizes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tests.exhaustive import custody, takeover
from tests.exhaustive.custody import CustodySizes, CustodySystem
from tests.exhaustive.explorer import Explored, explore
from tests.exhaustive.sessions import SessionSizes, SessionSystem
from tests.exhaustive.settling import SettlingSizes, SettlingSystem
from tests.exhaustive.steady import steady
from tests.exhaustive.takeover import TakeoverSizes, TakeoverSystem


@dataclass(frozen=True)
class Run:
    name: str
    sizes: Any
    system: Callable[[Any], Any]
    modelled: Callable[[], AbstractContextManager[None]]

    def explore(self, tell: Callable[[int, int], None] | None = None) -> Explored:
        """Raises Broken. For `tell`, see `explore`."""
        with self.modelled():
            return explore(lambda: self.system(self.sizes), tell=tell)


def runs(members: int, records: int, faults: int) -> list[Run]:
    size: dict[str, Any] = {"members": members, "records": records, "faults": faults}
    return [
        Run("sessions", SessionSizes(**size, releases=0), SessionSystem, steady),
        Run("sessions-in-turn", SessionSizes(**size, releases=0, at_once=1), SessionSystem, steady),
        Run("settling", SettlingSizes(**size), SettlingSystem, steady),
        Run("settling-in-turn", SettlingSizes(**size, at_once=1), SettlingSystem, steady),
        Run("journal", CustodySizes(**size), CustodySystem, custody.modelled),
        Run("rows", CustodySizes(**size, has_journal=False), CustodySystem, custody.modelled),
        Run("takeover", TakeoverSizes(**size), TakeoverSystem, takeover.modelled),
    ]
