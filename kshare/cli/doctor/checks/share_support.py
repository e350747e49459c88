"""Checks whether the brokers support share groups and have them enabled."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kshare.cli.cluster.cluster_info import ClusterInfo
from kshare.cli.terminal.check_result import CheckResult, ok, problem, unknown, warning
from kshare.net.connection import Connection
from kshare.net.share_groups import FEATURE
from kshare.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest

_CHECK = "share groups"
_NEEDED = (ShareGroupHeartbeatRequest, ShareFetchRequest, ShareAcknowledgeRequest)
_RENEWING = 2
_METADATA, _METADATA_OF_4_2 = "metadata.version", 29
# The code of 4.1.2 and 4.2.0 completes a request's future while it holds a share-partition's lock; since 4.2.1 and
# 4.3.0 it releases the lock before.
_DEADLOCK = (
    "4.1.x and 4.2.0 have a known deadlock in share groups (KAFKA-20505: records of a session that ends are released "
    "while others fetch), after which a broker answers nothing until it is restarted; upgrade to 4.2.1 or newer"
)


async def known(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    """Every broker must support the requests, or partitions that it leads can't be consumed."""
    versions: dict[int, int] = {}
    for node, connection in info.connections.items():
        missing = [one.NAME.removesuffix("Request") for one in _NEEDED if not connection.supports(one)]
        if missing:
            yield problem(
                _CHECK,
                f"broker {node} has no {', '.join(missing)}: share groups need Kafka 4.1 or newer, upgrade it",
            )
        else:
            versions[node] = connection.version_for(ShareAcknowledgeRequest)
    old = [str(node) for node, version in versions.items() if version < _RENEWING]
    if old and len(old) < len(versions):
        yield warning(
            _CHECK,
            f"brokers {', '.join(old)} are older than the others: they can't renew locks of records that they lead. "
            f"They run Kafka 4.1, and {_DEADLOCK}",
        )
    elif old:
        yield warning(_CHECK, f"{_brokers(old)} Kafka 4.1: {_DEADLOCK}")
    if unknown_releases := [str(node) for node in versions if _runs_4_2(info.connections[node])]:
        yield unknown(_CHECK, f"{_brokers(unknown_releases)} Kafka 4.2, exact release unknown: {_DEADLOCK}")


def _runs_4_2(connection: Connection) -> bool:
    return connection.versions.possible_features.get(_METADATA) == _METADATA_OF_4_2


def _brokers(nodes: list[str]) -> str:
    return f"broker {nodes[0]} runs" if len(nodes) == 1 else f"brokers {', '.join(nodes)} run"


async def switched_on(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    for connection in info.connections.values():
        versions = connection.versions
        level, possible = versions.features.get(FEATURE, 0), versions.possible_features.get(FEATURE, 0)
        if level >= 1:
            yield ok(_CHECK, f"{FEATURE} is {level}")
        elif possible >= 1:
            yield problem(
                _CHECK,
                f"{FEATURE} is 0: share groups are disabled, which is the default in Kafka 4.1",
                f"kafka-features.sh --bootstrap-server {info.server} upgrade --feature {FEATURE}=1",
            )
        else:
            yield problem(_CHECK, f"the brokers can't run {FEATURE}=1: upgrade them to Kafka 4.1 or newer")
        return
