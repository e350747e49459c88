"""Options of the embedded broker, as type checkers and editors see them.

Written by `python -m tools.options` from the dataclass in testing/config.py: change them there.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from kshare.broker.clock import Clock
from kshare.broker.profiles import Release


class BrokerOptions(TypedDict, total=False):
    """Options of `kshare.testing.Broker`."""

    topics: Mapping[str, int] | None
    """Topics to create, with their numbers of partitions: {"orders": 3}."""
    nodes: int
    """How many nodes the cluster has. Default: 1."""
    release: Release
    """The Kafka release to behave like. Default: "4.4"."""
    settings: Mapping[str, str] | None
    """Kafka's own broker settings: {"group.share.max.size": "5"}."""
    min_lock_ms: int | None
    """The shortest record lock that a group may choose: 1,000 ms unless given, 15,000 in Kafka. Overrides
    `settings`."""
    auto_create_topics: bool | None
    """Whether a topic is created when a client first asks for it, as Kafka does unless told otherwise. Overrides
    `settings`."""
    clock: Clock | None
    """A `ManualClock` for tests that set the time themselves. The system's clock unless given."""
    data_dir: str | Path | None
    """A folder to keep everything in. The next broker that is given it continues from there."""
    users: Mapping[str, str] | None
    """Names and passwords. With them, clients must log in by SASL PLAIN or SCRAM."""
    tls: ssl.SSLContext | None
    """A server's context. With it, clients must encrypt."""
