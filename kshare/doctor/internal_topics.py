"""Checks the internal topics that store share group state and group metadata.

Without `__share_group_state` no record is ever delivered. Its default of three replicas is the usual reason for that in
a small cluster.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kshare.admin import configs
from kshare.admin.configs import ConfigResource
from kshare.admin.expected_rows import expected_row
from kshare.doctor.check_result import CheckResult, ok, problem, warning
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.commands import topic_config_command
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic
from kshare.wording import counted

_CHECK = "internal topics"
_MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class _Internal:
    name: str
    holds: str
    replicas: str
    """The broker setting for the number of replicas."""
    least: str | None
    """The broker setting for how many must be in sync."""


_INTERNAL = (
    _Internal(
        "__share_group_state",
        "which records are settled",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
    ),
    _Internal("__consumer_offsets", "which groups exist", "offsets.topic.replication.factor", None),
)


async def internal_topics(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    for internal in _INTERNAL:
        try:
            topic = (await info.router.metadata([internal.name])).topics[0]
        except BrokerError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            yield await _not_made_yet(info, internal)
        else:
            expected_row(topic.partitions, "Metadata", f"the partitions of topic {internal.name}")
            for finding in await _as_it_is(info, internal, topic):
                yield finding


async def _not_made_yet(info: ClusterInfo, one: _Internal) -> CheckResult:
    """Brokers create it when the first group needs it, if they can."""
    settings = await info.broker_settings(one.replicas, *([one.least] if one.least else []))
    replicas, brokers = _number(settings.get(one.replicas)), len(info.nodes)
    if replicas is not None and replicas > brokers:
        return problem(
            _CHECK,
            f"{one.name}, which holds {one.holds}, doesn't exist and can't be created: it needs {replicas} "
            f"replicas, but there {'is 1 broker' if brokers == 1 else f'are {brokers} brokers'}",
            "# in server.properties of every broker; then restart it",
            f"{one.replicas}={brokers}",
            *([f"{one.least}={max(1, brokers - 1)}"] if one.least else []),
        )
    least = _number(settings.get(one.least)) if one.least else None
    if least is not None and replicas is not None and least > replicas:
        return problem(
            _CHECK,
            f"{one.name} will have {replicas} replicas, but {least} must be in sync: nothing can be written to it",
            "# in server.properties of every broker; then restart it",
            f"{one.least}={max(1, replicas - 1)}",
        )
    return ok(_CHECK, f"{one.name} will be created when the first group needs it")


async def _as_it_is(info: ClusterInfo, one: _Internal, topic: MetadataResponseTopic) -> list[CheckResult]:
    least = await _least_in_sync(info, one.name)
    found = [*_without_leader(one, topic.partitions), *_not_writable(info, one, topic.partitions, least)]
    degraded = [row for row in topic.partitions if len(row.isr_nodes) < len(row.replica_nodes)]
    if not found and degraded:
        found.append(
            warning(
                _CHECK,
                f"{one.name}: {_count(degraded, topic.partitions)} lack replicas on {_brokers(_absent(degraded))}: "
                "start or repair them",
            )
        )
    replicas = min((len(row.replica_nodes) for row in topic.partitions), default=0)
    if replicas == 1 and len(info.nodes) > 1:
        found.append(
            warning(
                _CHECK,
                f"{one.name} has one replica in a cluster of {len(info.nodes)}: while its broker is down, groups "
                "make no progress, and if its disk is lost, it is unknown " + one.holds,
                f"kafka-reassign-partitions.sh --bootstrap-server {info.server} --execute "
                "--reassignment-json-file PLAN.json  # a plan with more replicas",
            )
        )
    return found or [
        ok(_CHECK, f"{one.name} has {counted(replicas, 'replica')}, all partitions can be written to")
    ]


def _without_leader(one: _Internal, rows: Sequence[MetadataResponsePartition]) -> Iterator[CheckResult]:
    dead = [row for row in rows if row.leader_id < 0]
    if dead:
        brokers = sorted({node for row in dead for node in row.replica_nodes})
        yield problem(
            _CHECK,
            f"{one.name}: {_count(dead, rows)} have no leader; groups with state there make no progress: start "
            f"{_brokers(brokers)}",
        )


def _not_writable(
    info: ClusterInfo, one: _Internal, rows: Sequence[MetadataResponsePartition], least: int
) -> Iterator[CheckResult]:
    short = [row for row in rows if 0 <= row.leader_id and len(row.isr_nodes) < least]
    if not short:
        return
    text = f"{one.name}: {_count(short, rows)} have fewer replicas in sync than {_MIN_ISR} asks for ({least})"
    if max(len(row.replica_nodes) for row in short) < least:
        possible = max(1, min(len(row.replica_nodes) for row in short) - 1)
        yield problem(
            _CHECK,
            f"{text}, and don't have so many replicas at all: nothing can be written",
            topic_config_command(info.server, one.name, f"{_MIN_ISR}={possible}"),
        )
    else:
        yield problem(_CHECK, f"{text}: nothing can be written; start {_brokers(_absent(short))}")


async def _least_in_sync(info: ClusterInfo, topic: str) -> int:
    found = await configs.describe(info.router, ConfigResource.TOPIC, topic, keys=[_MIN_ISR])
    return next((int(entry.value or 1) for entry in found), 1)


def _absent(rows: Sequence[MetadataResponsePartition]) -> list[int]:
    return sorted({node for row in rows for node in set(row.replica_nodes) - set(row.isr_nodes)})


def _brokers(nodes: Iterable[int]) -> str:
    numbers = [str(node) for node in nodes]
    return f"{'broker' if len(numbers) == 1 else 'brokers'} {', '.join(numbers)}"


def _count(some: Sequence[object], of: Sequence[object]) -> str:
    return f"{len(some)} of {len(of)} partitions"


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
