"""Tells the groups that keep track of redriven dead letters from those that process records.

They have members only during a redrive, and what they didn't redrive waits for the next one. So their lag is no
backlog, and that nobody reads it is no problem: totals, some checks of `kshare doctor` and the alert rules leave them
out.
"""

from __future__ import annotations

PREFIX = "kshare-dlq-"
"""`kshare dlq` and `kshare web` name them so, unless the user names another group."""


def is_tracking(group: str) -> bool:
    return group.startswith(PREFIX)
