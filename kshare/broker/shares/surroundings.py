"""What led share-partitions need of the broker around them."""

from __future__ import annotations

from dataclasses import dataclass

from kshare.broker.clock import Clock
from kshare.broker.cluster import Cluster
from kshare.broker.configs import Configs
from kshare.broker.share_state.coordinator import ShareCoordinator


@dataclass(slots=True, frozen=True)
class Surroundings:
    clock: Clock
    configs: Configs
    cluster: Cluster
    states: ShareCoordinator
