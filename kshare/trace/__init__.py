"""A proxy between any client and any cluster that observes all traffic: it replaces broker addresses with its own.

Broker addresses are all that it changes. Bytes are forwarded first and inspected afterwards.
"""

from __future__ import annotations

from kshare.trace.proxy import Proxy
from kshare.trace.relay import ProxyObserver, Tap

__all__ = ["Proxy", "ProxyObserver", "Tap"]
