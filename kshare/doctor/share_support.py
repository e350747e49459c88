"""Checks whether the brokers support share groups and have them enabled."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kshare.doctor.check_result import CheckResult, ok, problem, unknown, warning
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.releases import DEADLOCK, MinorRelease, minor_release
from kshare.net.share_groups import FEATURE
from kshare.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest

_CHECK = "share groups"
_NEEDED = (ShareGroupHeartbeatRequest, ShareFetchRequest, ShareAcknowledgeRequest)


async def known(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    """Every broker must support the requests, or partitions that it leads can't be consumed."""
    releases: dict[int, MinorRelease | None] = {}
    for node, connection in info.connections.items():
        missing = [
            request.NAME.removesuffix("Request") for request in _NEEDED if not connection.supports(request)
        ]
        if missing:
            yield problem(
                _CHECK,
                f"broker {node} has no {', '.join(missing)}: share groups need Kafka 4.1 or newer, upgrade it",
            )
        else:
            releases[node] = minor_release(connection.versions)
    old = [str(node) for node, release in releases.items() if release in DEADLOCK.has]
    if old and len(old) < len(releases):
        yield warning(
            _CHECK,
            f"brokers {', '.join(old)} are older than the others: they can't renew locks of records that they lead. "
            f"They run Kafka 4.1, and {DEADLOCK.text}",
        )
    elif old:
        yield warning(_CHECK, f"{_brokers(old)} Kafka 4.1: {DEADLOCK.text}")
    if unsure := [str(node) for node, release in releases.items() if release in DEADLOCK.may_have]:
        yield unknown(_CHECK, f"{_brokers(unsure)} Kafka 4.2, exact release unknown: {DEADLOCK.text}")


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
