"""Decompresses batches in a thread, one at a time: meanwhile the event loop goes on, and memory is bounded.

Decompressing may take twice the memory of what it yields.
"""

from __future__ import annotations

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

from kshare.net.in_thread import in_thread
from kshare.protocol.records import Batch

_AT_ONCE = 1
_limiter: RunVar[CapacityLimiter] = RunVar("kshare.admin.batch_opening")
"""Of this event loop."""


async def open_batch(batch: Batch) -> None:
    """Call it before you read the records. Raises CorruptBatchError, or BudgetSpentError, as reading them would."""
    if not batch.compression:
        batch.open()
        return
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = CapacityLimiter(_AT_ONCE)
        _limiter.set(limiter)
    await in_thread(batch.open, limiter=limiter)
