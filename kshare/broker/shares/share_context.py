"""The parts of the broker that the leader of a share-partition uses."""

from __future__ import annotations

from dataclasses import dataclass, field

from kshare.broker.clock import Clock
from kshare.broker.cluster import Cluster
from kshare.broker.configs import Configs
from kshare.broker.counters import Counters
from kshare.broker.share_state.coordinator import ShareCoordinator
from kshare.broker.shares.dead_letters import DeadLetters


@dataclass(slots=True, frozen=True)
class ShareContext:
    clock: Clock
    configs: Configs
    cluster: Cluster
    states: ShareCoordinator
    dead_letters: DeadLetters | None = None
    """None before 4.4."""
    counters: Counters = field(default_factory=Counters)
    since_4_2: bool = True
    """See `delivery.GroupLimits`."""
