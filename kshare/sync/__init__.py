"""The share consumer for blocking code."""

from kshare.sync.consumer import ShareConsumer

__all__ = ["ShareConsumer"]
