"""The error of a request: a code and possibly a message, which a handler puts into the response."""

from __future__ import annotations

from kshare.errors import Copyable
from kshare.protocol.error_codes import ErrorCode

NOT_HOSTED = "This server does not host this topic-partition."
"""Kafka's message for UNKNOWN_TOPIC_OR_PARTITION."""
NOT_THE_COORDINATOR = "This is not the correct coordinator."


class RequestError(Copyable):
    """A request fails with an error code. Never leaves the broker, which sends it in a response."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code.name if message is None else f"{code.name}: {message}")
        self.code = code
        self.message = message
