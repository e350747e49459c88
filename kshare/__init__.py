"""Kafka share groups (KIP-932) for Python: durable queues with per-record acknowledgements, on the wire."""

from kshare.errors import (
    AcknowledgeError,
    AuthenticationFailed,
    BrokerError,
    ConfigError,
    ConnectionLost,
    CorruptBatchError,
    DecodeError,
    EncodeError,
    KshareError,
    RequestTimedOut,
    Unsupported,
)

__all__ = [
    "AcknowledgeError",
    "AuthenticationFailed",
    "BrokerError",
    "ConfigError",
    "ConnectionLost",
    "CorruptBatchError",
    "DecodeError",
    "EncodeError",
    "KshareError",
    "RequestTimedOut",
    "Unsupported",
]
