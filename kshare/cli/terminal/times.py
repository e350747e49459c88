"""Parses times."""

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
