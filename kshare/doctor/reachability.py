"""Checks whether clients can reach every broker at its advertised address."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace

from kshare.doctor.check_result import CheckResult, ok, problem, warning
from kshare.doctor.cluster_info import PATIENCE_S, ClusterInfo
from kshare.errors import ConnectionLost, KshareError
from kshare.net.addresses import Address, format_address, is_loopback
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.messages import MetadataRequest

_BOOTSTRAP, _LISTENERS = "bootstrap", "listeners"


async def bootstrap(settings: NetSettings) -> AsyncIterator[CheckResult]:
    """Check each bootstrap address separately."""
    for address in settings.bootstrap:
        shown = format_address(address)
        try:
            async with Pool(replace(settings, bootstrap=(address,))) as pool:
                await pool.bootstrap(timeout=PATIENCE_S)
        except KshareError as error:
            if len(settings.bootstrap) == 1 or not isinstance(error, ConnectionLost):
                yield problem(_BOOTSTRAP, str(error))
            else:
                yield warning(
                    _BOOTSTRAP,
                    f"{error}; clients that try it first lose time: start the broker at {shown}, or take it out of "
                    "bootstrap.servers if it is gone for good",
                )
        else:
            yield ok(_BOOTSTRAP, f"{shown} responds")


async def listeners(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    """Check the addresses that brokers advertise."""
    for node, reason in info.unreachable.items():
        where = info.nodes[node]
        yield problem(
            _LISTENERS,
            f"broker {node} advertises {format_address(where)}, which can't be reached from here: {reason}",
            f"# in server.properties of broker {node}, with a host name that clients can reach; then restart it",
            f"advertised.listeners=PLAINTEXT://HOST:{where[1]}",
        )
    for finding in (*_shared(info), *_private(info), *[other async for other in _other_clusters(info)]):
        yield finding
    if info.connections and not info.unreachable:
        count = len(info.connections)
        yield ok(
            _LISTENERS,
            f"{'the broker responds at its' if count == 1 else f'all {count} brokers respond at their'} "
            "advertised address",
        )


def _shared(info: ClusterInfo) -> list[CheckResult]:
    """Two brokers behind one address: half of the requests reach the wrong one."""
    by_address: dict[Address, list[int]] = defaultdict(list)
    for node, address in info.nodes.items():
        by_address[address].append(node)
    return [
        problem(
            _LISTENERS,
            f"brokers {', '.join(map(str, nodes))} all advertise {format_address(address)}: a client that connects to "
            "one of them may reach another",
            "# in server.properties of each broker, an address of its own; then restart it",
            f"advertised.listeners=PLAINTEXT://HOST:{address[1]}",
        )
        for address, nodes in by_address.items()
        if len(nodes) > 1
    ]


def _private(info: ClusterInfo) -> list[CheckResult]:
    """A loopback address, which every client interprets as its own machine."""
    given = [host for host, _ in info.pool.settings.bootstrap]
    if all(map(is_loopback, given)):
        return []
    return [
        problem(
            _LISTENERS,
            f"broker {node} advertises {format_address(address)}, which every client interprets as its own machine",
            f"# in server.properties of broker {node}; then restart it",
            f"advertised.listeners=PLAINTEXT://{given[0]}:{address[1]}",
        )
        for node, address in info.nodes.items()
        if is_loopback(address[0])
    ]


async def _other_clusters(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    for node in info.connections:
        response = await info.router.ask_node(node, MetadataRequest([]), lambda response: ())
        if response.cluster_id != info.cluster_id:
            where = format_address(info.nodes[node])
            yield problem(
                _LISTENERS,
                f"{where} should be broker {node} of cluster {info.cluster_id}, but belongs to {response.cluster_id}: "
                "two clusters share addresses",
            )
