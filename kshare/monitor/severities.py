"""How serious the troubles of groups are: one definition for the levels of `kshare doctor` and for the alert rules.

Critical is what can't wait until the morning: records aren't delivered at all, or they are lost, or about to be. An
alert waits for some minutes, because it must not wake anybody for what passes. `kshare doctor` only looks for two
seconds.
"""

from __future__ import annotations

from enum import StrEnum


class Trouble(StrEnum):
    """By the names of the alerts."""

    WINDOW_PINNED = "ShareGroupWindowPinned"
    STALLED = "ShareGroupStalled"
    RETENTION_NEAR = "ShareGroupRetentionNear"
    RECORDS_REMOVED = "ShareGroupRecordsRemoved"
    WITHOUT_MEMBERS = "ShareGroupWithoutMembers"
    ARCHIVES_WITHOUT_DEAD_LETTERS = "ShareGroupArchivesWithoutDeadLetters"
    FULL = "ShareGroupFull"

    @property
    def is_critical(self) -> bool:
        return self in _CRITICAL


_CRITICAL = (Trouble.WINDOW_PINNED, Trouble.STALLED, Trouble.RETENTION_NEAR, Trouble.RECORDS_REMOVED)
RETENTION_NEAR_FROM = 0.8
"""The part of the retention from which on it is about to remove records."""
