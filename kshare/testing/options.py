"""Generated: options of the embedded broker, as type checkers and editors see them.

Written by `python -m tools.options` from the dataclass in testing/config.py: change them there.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from kshare.broker.clock import Clock
from kshare.broker.profiles import Release


class BrokerOptions(TypedDict, total=False):
    """Options of `kshare.testing.Broker`.

    Options: topics, nodes, release, settings, min_lock_ms, auto_create_topics, clock, data_dir, users, tls.
    """

    topics: Mapping[str, int] | None
    """Topics to create, with the number of partitions of each: {"orders": 3}."""
    nodes: int
    """The number of brokers in the cluster. Default: 1."""
    release: Release
    """The Kafka release to emulate. Default: "4.4"."""
    settings: Mapping[str, str] | None
    """Broker settings, by the names that Kafka uses in server.properties: {"group.share.max.size": "5"}."""
    min_lock_ms: int | None
    """The shortest acquisition lock that a group may configure: 1,000 ms by default, 15,000 in Kafka. Overrides
    `settings`."""
    auto_create_topics: bool | None
    """Whether a topic is created when a client first asks for it: yes by default, as in Kafka. Overrides `settings`."""
    clock: Clock | None
    """A `ManualClock`, for tests that control the time. By default, the system clock."""
    data_dir: str | Path | None
    """A folder to store all data in. A broker that is started with the same folder continues where the last one
    stopped."""
    users: Mapping[str, str] | None
    """User names and passwords. If there are any, clients must authenticate with SASL PLAIN or SCRAM."""
    tls: ssl.SSLContext | None
    """A server-side SSLContext. If given, clients must use TLS."""
