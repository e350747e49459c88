"""Kafka share groups (KIP-932) for Python: durable queues with per-record acknowledgements, on the wire."""

from kshare.errors import CorruptBatchError, DecodeError, EncodeError, KshareError

__all__ = ["CorruptBatchError", "DecodeError", "EncodeError", "KshareError"]
