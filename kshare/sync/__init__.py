"""The share consumer and the producer for blocking code."""

from kshare.sync.consumer import ShareConsumer
from kshare.sync.producer import PendingSend, Producer

__all__ = ["PendingSend", "Producer", "ShareConsumer"]
