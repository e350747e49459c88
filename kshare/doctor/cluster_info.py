"""What all checks need to know about the cluster, requested once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kshare.admin import configs
from kshare.admin.configs import ConfigResource
from kshare.admin.expected_rows import expected_row
from kshare.admin.results import ConfigEntry
from kshare.admin.routing import Router
from kshare.doctor.readings import Readings, take_readings
from kshare.errors import KshareError
from kshare.monitor.side_by_side import side_by_side
from kshare.monitor.stalls import MembersSince
from kshare.net.addresses import Address, format_address
from kshare.net.connection import Connection
from kshare.net.pool import Pool

PATIENCE_S = 5.0
"""How long connecting to a broker may take."""


@dataclass(slots=True)
class ClusterInfo:
    pool: Pool
    router: Router
    groups: tuple[str, ...] = ()
    """The groups to check; if empty, all visible groups."""
    topics: tuple[str, ...] = ()
    members_since: MembersSince | None = None
    """What is known already of when groups had members."""
    misspelt: set[str] = field(default_factory=set)
    """Those of `groups` that don't exist and resemble existing ones: they aren't checked."""
    well_configured: set[str] = field(default_factory=set)
    """Groups that have no problems, but for their dead-letter topics, which are checked later."""
    self_written: Mapping[str, str] = field(default_factory=dict)
    """Groups whose members write dead letters themselves, with the topic; known once dead letters were checked."""
    nodes: dict[int, Address] = field(default_factory=dict)
    cluster_id: str | None = None
    connections: dict[int, Connection] = field(default_factory=dict)
    """Connections to the brokers that can be reached."""
    unreachable: dict[int, str] = field(default_factory=dict)
    """Why other brokers can't be reached."""

    @property
    def server(self) -> str:
        """The bootstrap server, for suggested commands."""
        return format_address(self.pool.settings.bootstrap[0])

    _readings: Readings | KshareError | None = None
    _group_configs: dict[str, list[ConfigEntry]] = field(default_factory=dict)
    _partitions: dict[str, list[int]] | None = None

    async def readings(self, names: tuple[str, ...]) -> Readings:
        """Readings of the groups to check. Tried once, for the names of the first call; if it failed, raises again."""
        if self._readings is None:
            try:
                self._readings = await take_readings(self.router, names, self.members_since)
            except KshareError as error:
                self._readings = error
        if isinstance(self._readings, KshareError):
            raise self._readings
        return self._readings

    async def group_config(self, group: str) -> list[ConfigEntry]:
        """The configuration of a group. Several checks need it, so it is requested once."""
        if group not in self._group_configs:
            self._group_configs[group] = await configs.group_config(self.router, group)
        return self._group_configs[group]

    async def partitions(self) -> Mapping[str, Sequence[int]]:
        """All visible topics, with their partitions in order. Requested once: with 10,000 partitions and 300 groups, it
        took most of the time."""
        if self._partitions is None:
            self._partitions = {
                topic.name or "": sorted(row.partition_index for row in topic.partitions)
                for topic in (await self.router.metadata(None)).topics
            }
        return self._partitions

    async def discover(self) -> None:
        """Find all brokers, and connect to each at its advertised address."""
        response = await self.router.metadata([])
        expected_row(response.brokers, "Metadata", "any broker")
        self.cluster_id = response.cluster_id
        self.nodes = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        connections: dict[int, Connection] = {}
        unreachable: dict[int, str] = {}

        async def connect(node: int) -> None:
            try:
                connections[node] = await self.pool.connection(node, timeout=PATIENCE_S)
            except KshareError as error:
                unreachable[node] = str(error)

        await side_by_side(connect, self.nodes)
        self.connections = dict(sorted(connections.items()))
        self.unreachable = dict(sorted(unreachable.items()))

    async def broker_settings(self, *names: str) -> dict[str, str | None]:
        """Settings of one of the brokers; those it doesn't know are left out."""
        node = next(iter(self.connections))
        found = await configs.describe(
            self.router, ConfigResource.BROKER, str(node), node=node, keys=list(names)
        )
        return {entry.name: entry.value for entry in found}
