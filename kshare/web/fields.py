"""Reads the fields of forms and of query strings. What can't be read is an error of the user's, with an explanation."""

from __future__ import annotations

from datetime import UTC, datetime

from starlette.exceptions import HTTPException

_MOST_DIGITS = 18


def whole_number(text: str, what: str) -> int | None:
    """None if it is empty."""
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise HTTPException(400, f"{what}: {text!r} isn't a whole number")
    return int(text)


def time_of(text: str, what: str) -> datetime | None:
    """A time since 1970, UTC if it has no zone; None if it is empty."""
    text = text.strip()
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
        time = time if time.tzinfo else time.replace(tzinfo=UTC)
        is_before = time.timestamp() < 0
    except (ValueError, OverflowError):
        raise HTTPException(400, f"{what}: {text!r} isn't a time: write it as 2026-01-31T12:00:00") from None
    if is_before:
        raise HTTPException(
            400, f"{what}: {text!r} is before 1970, where Kafka's times begin: write a later time"
        )
    return time


def milliseconds(text: str, what: str) -> int | None:
    """A time as `time_of` reads it, in milliseconds since 1970."""
    time = time_of(text, what)
    return None if time is None else int(time.timestamp() * 1000)


def place(text: str, what: str) -> tuple[int, int]:
    """A partition and an offset."""
    partition, _, offset = text.partition(":")
    found = whole_number(partition, what), whole_number(offset, what)
    if found[0] is None or found[1] is None:
        raise HTTPException(400, f"{what}: {text!r} isn't a place: write PARTITION:OFFSET, as in 0:17")
    return found[0], found[1]
