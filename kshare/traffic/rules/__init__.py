"""Every rule of the linter, by subject."""

from __future__ import annotations

from kshare.traffic.findings import LinterRule
from kshare.traffic.rules import acknowledgements, fetches, frames, locks, membership, sessions, window

RULES: tuple[type[LinterRule], ...] = (
    *sessions.RULES,
    *acknowledgements.RULES,
    *locks.RULES,
    *fetches.RULES,
    *membership.RULES,
    *window.RULES,
    *frames.RULES,
)
