"""Headers of copies: of records that are to be retried later, and of dead letters. Pure.

A copy keeps the key, the value and the headers of its record. What we add begins with `__kshare.retry.` in retry
topics and with `__dlq.errors.`, as Kafka 4.4 writes it, in dead letters; a copy of a copy has the origin of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kshare.worker.functions.user_functions import exception_name

Header = tuple[str, bytes | None]

RETRY = "__kshare.retry."
DEAD_LETTER = "__dlq.errors."
_MAX_DIGITS = 19
_MAX_MESSAGE = 1_000
"""Longer error messages are cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryContext:
    """What a copy in a retry topic says about its record."""

    topic: str
    partition: int
    offset: int
    group: str
    timestamp: int
    """Of the original record."""
    attempts: int
    """How many attempts it has had, with those that ended without a result."""
    due_ms: int
    """When it may be tried again, in milliseconds since 1970."""
    error: str = ""
    """The class of the last exception."""
    run: str = ""
    """The id of the run that was moved: see `moved_runs`."""
    is_over: bool = False
    """That run is over."""
    apart: int = 0
    """How many times in a row it was moved because its deliveries ended without a result."""
    unfinished: int = 0
    """How many of its attempts ended without a result. Its retry policy doesn't count them."""

    def headers(self) -> list[Header]:
        found = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "group": self.group,
            "timestamp": self.timestamp,
            "attempts": self.attempts,
            "due": self.due_ms,
            "error": self.error,
        }
        if self.run:
            found["run"] = self.run
        if self.apart:
            found["apart"] = self.apart
        if self.unfinished:
            found["unfinished"] = self.unfinished
        if self.is_over:
            found["over"] = 1
        return [(RETRY + name, str(value).encode()) for name, value in found.items()]


def read_retry_context(headers: Iterable[tuple[str, object]]) -> RetryContext | None:
    """None if these aren't the headers of a copy in a retry topic."""
    found: dict[str, str] = {}
    for name, value in headers:
        if name.startswith(RETRY) and value is not None:
            found[name.removeprefix(RETRY)] = bytes(value).decode(errors="replace")  # type: ignore[call-overload]
    try:
        return RetryContext(
            topic=found["topic"],
            partition=_number(found["partition"]),
            offset=_number(found["offset"]),
            group=found["group"],
            timestamp=_number(found["timestamp"], least=-1),
            attempts=_number(found["attempts"]),
            due_ms=_number(found["due"]),
            error=found.get("error", ""),
            run=found.get("run", ""),
            is_over="over" in found,
            apart=_number(found.get("apart", "0")),
            unfinished=_number(found.get("unfinished", "0")),
        )
    except (KeyError, ValueError):
        return None


def _number(text: str, least: int = 0) -> int:
    """Raises ValueError if it isn't one that we write."""
    number = int(text[:_MAX_DIGITS])
    if len(text) > _MAX_DIGITS or not least <= number < 2**63:
        raise ValueError
    return number


def run_mark(run: str) -> Header:
    """The header that all copies of a run have."""
    return RETRY + "run", run.encode()


def own_headers(headers: Iterable[tuple[str, object]]) -> list[Header]:
    """The headers of the original record."""
    return [(name, value) for name, value in own_bytes(headers) if not name.startswith((RETRY, DEAD_LETTER))]


def own_bytes(headers: Iterable[tuple[str, object]]) -> list[Header]:
    """Headers whose values don't refer to the buffer of a response."""
    return [
        (name, None if value is None else bytes(value))  # type: ignore[call-overload]
        for name, value in headers
    ]


def truncation_header(size: int) -> Header:
    """Says that the value of a dead letter was cut, and how many bytes it had."""
    return DEAD_LETTER + "truncated", str(size).encode()


def dead_letter_headers(
    origin: RetryContext, deliveries: int, message: str, error: BaseException | None, handler: str
) -> list[Header]:
    found: Sequence[tuple[str, object]] = (
        ("topic", origin.topic),
        ("partition", origin.partition),
        ("offset", origin.offset),
        ("group", origin.group),
        ("delivery.count", deliveries),
        ("message", message[:_MAX_MESSAGE]),
        ("attempts", origin.attempts),
        ("handler", handler),
        *((("exception", exception_name(error)),) if error is not None else ()),
    )
    return [(DEAD_LETTER + name, str(value).encode(errors="replace")) for name, value in found]
