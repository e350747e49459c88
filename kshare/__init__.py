"""Kafka share groups (KIP-932) for Python: durable queues with per-record acknowledgements, on the wire."""

from kshare.errors import (
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
