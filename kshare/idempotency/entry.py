"""The rules by which a key is claimed, finished and abandoned. Pure: time is passed in.

A key has no entry, or one: in progress until its owner finishes or abandons it, then done. An expired entry counts as
none. Owners are random tokens, one for each call. The SQL and Redis stores follow the same rules in their languages.
"""

from __future__ import annotations

from typing import NamedTuple

from kshare.idempotency.store import CLAIMED, ClaimResponse, ClaimState


class Entry(NamedTuple):
    owner: str
    expires: float
    result: bytes | None = None
    """None while the call is in progress."""

    @property
    def is_done(self) -> bool:
        return self.result is not None


def on_claim(entry: Entry | None, owner: str, now: float) -> ClaimResponse:
    """The response to a claim. If it is CLAIMED, the entry is replaced by one of this owner."""
    if entry is None or entry.expires <= now:
        return CLAIMED
    if entry.result is not None:
        return ClaimResponse(ClaimState.DONE, result=entry.result)
    if entry.owner == owner:  # the claim was sent twice
        return CLAIMED
    return ClaimResponse(ClaimState.IN_PROGRESS, expires_in=entry.expires - now)


def may_finish(entry: Entry | None, owner: str, now: float) -> bool:
    """Whether the owner's result is stored. Not if its claim expired and another process has the key now."""
    return entry is None or entry.owner == owner or entry.expires <= now


def may_abandon(entry: Entry | None, owner: str) -> bool:
    """Whether the entry is removed: only the owner's claim, and never a result."""
    return entry is not None and entry.owner == owner and not entry.is_done
