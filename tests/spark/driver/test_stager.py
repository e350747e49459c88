"""Staging acquired ranges: what the task does when the query stops."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import anyio
import pytest

from kshare.spark.driver.custody import Custody
from kshare.spark.driver.offset_sets import PartitionRange
from kshare.spark.driver.stager import Stager
from kshare.spark.journal.settings import JournalSettings
from kshare.spark.ranges import JournalPosition, Token

pytestmark = pytest.mark.anyio

ORDERS = UUID(int=1).bytes


async def test_a_stopped_stager_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """It used all of a processor until the group was left, if more had been acquired than was appended."""
    custody = Custody("journal")
    position = JournalPosition("j", "topic j", 0)
    custody.adopt_journal(position, ())
    custody.complete(Token(1, journal=position))
    nothing: Any = None
    stager = Stager(nothing, JournalSettings(), custody, lambda decisions: None, nothing)
    await stager.stop()
    custody.acquired("orders", PartitionRange((ORDERS, 0), 0, 9), 1)
    assert custody.waiting == 10
    with anyio.fail_after(5.0):
        await stager.run()
