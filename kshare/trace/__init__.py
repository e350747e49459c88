"""A proxy between any client and any cluster that keeps all traffic in view: it says that every broker is here.

Decides nothing about Kafka but where brokers are. Bytes are passed on first; whoever watches gets them afterwards.
"""

from __future__ import annotations

from kshare.trace.proxy import Proxy
from kshare.trace.relay import ProxyObserver, Tap

__all__ = ["Proxy", "ProxyObserver", "Tap"]
