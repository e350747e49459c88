"""Parses and formats times."""

from __future__ import annotations

from datetime import UTC, datetime

import typer


def written_time(option: str, text: str) -> datetime:
    """Parse a time; UTC if it has no zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{option} {text}: write it as 2026-01-31T12:00:00") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def iso_time(milliseconds: int) -> str:
    """A time in UTC; a dash if it is negative (none) or out of range."""
    try:
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return "-"
    return "-" if milliseconds < 0 else time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
