"""Why a worker process hasn't told its status. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kshare.errors import Copyable


class Why(StrEnum):
    NOT_ALLOWED = "not allowed"
    """Its host isn't among those that may be asked."""
    UNKNOWN_HOST = "unknown host"
    UNREACHABLE = "unreachable"
    """Connection refused, no route, or TLS has failed."""
    TIMED_OUT = "timed out"
    CLOSED = "closed"
    """The connection was closed before the response was complete."""
    NOT_OK = "not ok"
    """The response isn't one with status 200: a redirect, for example, which isn't followed."""
    TOO_LARGE = "too large"
    NOT_JSON = "not JSON"
    NOT_EXPECTED = "not expected"
    """It is JSON of another schema."""
    OTHER_PROCESS = "other process"
    """Another process responds at the URL than the one that has announced it."""


@dataclass(frozen=True, slots=True)
class NoStatus:
    why: Why
    text: str
    """For people, with the details."""


class NoResponse(Copyable):
    """`reason` is what is returned to callers in its place."""

    def __init__(self, why: Why, text: str) -> None:
        super().__init__(text)
        self.reason = NoStatus(why, text)
