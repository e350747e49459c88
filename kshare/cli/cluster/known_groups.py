"""The error message for a group that doesn't exist."""

from __future__ import annotations

from collections.abc import Iterable

from kshare.cli.terminal.suggestion import did_you_mean


def no_group(name: str, known: Iterable[str]) -> str:
    """For example: no group 'pinters'; did you mean 'printers'?"""
    return f"no group {name!r}{did_you_mean(name, known)}"
