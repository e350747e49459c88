"""A Python client for Kafka share groups (KIP-932): durable queues with individually acknowledged records.

ShareConsumer consumes, Producer writes and AdminClient manages share groups. docs/api.md lists all public names; other
public modules are `kshare.sync` (for blocking code), `kshare.testing`, `kshare.spark`, `kshare.events` and
`kshare.metrics`. Names are loaded when they are first used, so that programs that need only the codecs start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kshare import fast as fast  # first: its switch decides which files all other modules are loaded from
from kshare.errors import (
    AcknowledgeError,
    AuthenticationFailed,
    BrokerError,
    CommitUnknown,
    ConfigError,
    ConnectionLost,
    ConsumerClosed,
    CorruptBatchError,
    DecodeError,
    DeliveryFailed,
    DeserializationFailed,
    KshareError,
    NotAuthorized,
    ProducerFenced,
    RequestTimedOut,
    Unsupported,
)

if TYPE_CHECKING:
    __version__: str
    from kshare.admin.client import AdminClient
    from kshare.client.consumer import ShareConsumer
    from kshare.client.deserialize import ReadRecord, ShareBatch
    from kshare.client.deserializer_calls import DeserializerContext
    from kshare.client.options import ClientOptions, ConsumerOptions
    from kshare.client.record import ShareRecord
    from kshare.events import Acknowledged
    from kshare.producer.client import Producer
    from kshare.producer.options import ProducerOptions
    from kshare.producer.records import PendingSend, Produced

__all__ = [
    "AcknowledgeError",
    "Acknowledged",
    "AdminClient",
    "AuthenticationFailed",
    "BrokerError",
    "ClientOptions",
    "CommitUnknown",
    "ConfigError",
    "ConnectionLost",
    "ConsumerClosed",
    "ConsumerOptions",
    "CorruptBatchError",
    "DecodeError",
    "DeliveryFailed",
    "DeserializationFailed",
    "DeserializerContext",
    "KshareError",
    "NotAuthorized",
    "PendingSend",
    "Produced",
    "Producer",
    "ProducerFenced",
    "ProducerOptions",
    "ReadRecord",
    "RequestTimedOut",
    "ShareBatch",
    "ShareConsumer",
    "ShareRecord",
    "Unsupported",
]

_LATE = {
    "AdminClient": "kshare.admin.client",
    "ClientOptions": "kshare.client.options",
    "ConsumerOptions": "kshare.client.options",
    "DeserializerContext": "kshare.client.deserializer_calls",
    "PendingSend": "kshare.producer.records",
    "Produced": "kshare.producer.records",
    "Producer": "kshare.producer.client",
    "ProducerOptions": "kshare.producer.options",
    "ReadRecord": "kshare.client.deserialize",
    "Acknowledged": "kshare.events",
    "ShareBatch": "kshare.client.record",
    "ShareConsumer": "kshare.client.consumer",
    "ShareRecord": "kshare.client.record",
}


if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from kshare.installation import version

            return version()
        if name not in _LATE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    """Includes the names that haven't been loaded yet."""
    return sorted({*globals(), *__all__, "__version__"})
