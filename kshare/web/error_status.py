"""The HTTP status of an error: 502 for what the cluster refuses, unless the user can do something about it."""

from __future__ import annotations

from kshare.errors import BrokerError, ConfigError, EncodeError
from kshare.protocol.error_codes import ErrorCode

_STATUS: dict[int, int] = {
    ErrorCode.GROUP_ID_NOT_FOUND: 404,  # it was deleted since the last reading
    ErrorCode.NON_EMPTY_GROUP: 409,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.INVALID_TOPIC_EXCEPTION: 400,
    ErrorCode.INVALID_GROUP_ID: 400,
}


def status_of(error: Exception) -> int:
    if isinstance(error, ConfigError | EncodeError):
        return 400
    return _STATUS.get(error.code, 502) if isinstance(error, BrokerError) else 502


def reason_of(error: Exception) -> str:
    """The sentence for the user."""
    if isinstance(error, EncodeError):  # names and values are all that users give
        return f"this can't be sent to Kafka: {error.reason}. Write a shorter text"
    return str(error)
