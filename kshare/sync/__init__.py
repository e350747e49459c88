"""The share consumer for programs without an event loop."""

from kshare.sync.consumer import ShareConsumer

__all__ = ["ShareConsumer"]
