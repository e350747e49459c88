"""The error of a request: an error code and perhaps a message, which a handler puts into the response."""

from __future__ import annotations

from kshare.protocol.error_codes import ErrorCode

NOT_HOSTED = "This server does not host this topic-partition."
"""Kafka's text for UNKNOWN_TOPIC_OR_PARTITION."""
NOT_THE_COORDINATOR = "This is not the correct coordinator."


class RequestError(Exception):
    """Never leaves the broker: the response carries its error code."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code.name if message is None else f"{code.name}: {message}")
        self.code = code
        self.message = message
