"""Remembers by key what a function has done, so that a redelivered record returns the stored result.

@idempotent(SQLiteStore("payments.db"), key=lambda order: order["id"])
async def charge(order): ...
"""

from __future__ import annotations

from kshare.errors import ClaimLost, InProgress, StoreFailed
from kshare.idempotency.decorator import idempotent
from kshare.idempotency.memory import MemoryStore
from kshare.idempotency.sql import SQL_SCHEMA, SQLStore
from kshare.idempotency.sqlite import SQLiteStore
from kshare.idempotency.store import ClaimResponse, ClaimState, IdempotencyStore

__all__ = [
    "SQL_SCHEMA",
    "ClaimLost",
    "ClaimResponse",
    "ClaimState",
    "IdempotencyStore",
    "InProgress",
    "MemoryStore",
    "SQLStore",
    "SQLiteStore",
    "StoreFailed",
    "idempotent",
]
