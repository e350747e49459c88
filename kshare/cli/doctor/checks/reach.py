"""Checks whether clients can reach every broker at its advertised address."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import ip_address

from kshare.cli.doctor.checks.cluster_info import PATIENCE_S, Patient
from kshare.cli.doctor.checks.finding import Finding, ok, problem, warning
from kshare.errors import ConnectionLost, KshareError
from kshare.net.addresses import Address, format_address
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.messages import MetadataRequest

_BOOTSTRAP, _LISTENERS = "bootstrap", "listeners"


async def bootstrap(settings: NetSettings) -> AsyncIterator[Finding]:
    """Each address that we were given, on its own."""
    for address in settings.bootstrap:
        shown = format_address(address)
        try:
            async with Pool(replace(settings, bootstrap=(address,))) as pool:
                await pool.get_in(timeout=PATIENCE_S)
        except KshareError as error:
            if len(settings.bootstrap) == 1 or not isinstance(error, ConnectionLost):
                yield problem(_BOOTSTRAP, str(error))
            else:
                yield warning(_BOOTSTRAP, f"{error}; clients that try it first lose time: leave {shown} out")
        else:
            yield ok(_BOOTSTRAP, f"{shown} answers")


async def listeners(patient: Patient) -> AsyncIterator[Finding]:
    """The addresses that brokers give to clients."""
    for node, reason in patient.unreachable.items():
        where = patient.nodes[node]
        yield problem(
            _LISTENERS,
            f"broker {node} tells clients to come to {format_address(where)}, and from here that fails: {reason}",
            f"# in server.properties of broker {node}, with a host name that clients can reach; then restart it",
            f"advertised.listeners=PLAINTEXT://HOST:{where[1]}",
        )
    for finding in _shared(patient):
        yield finding
    for finding in _private(patient):
        yield finding
    found = [finding async for finding in _other_clusters(patient)]
    for finding in found:
        yield finding
    if patient.connections and not patient.unreachable:
        count = len(patient.connections)
        yield ok(
            _LISTENERS,
            f"{'the broker answers' if count == 1 else f'all {count} brokers answer'} "
            "where clients are sent to",
        )


def _shared(patient: Patient) -> list[Finding]:
    """Two brokers behind one address: half of the requests reach the wrong one."""
    by_address: dict[Address, list[int]] = defaultdict(list)
    for node, address in patient.nodes.items():
        by_address[address].append(node)
    return [
        problem(
            _LISTENERS,
            f"brokers {', '.join(map(str, nodes))} all send clients to {format_address(address)}: a client that means "
            "one of them reaches any",
            "# in server.properties of each broker, an address that leads to it alone; then restart it",
            f"advertised.listeners=PLAINTEXT://HOST:{address[1]}",
        )
        for address, nodes in by_address.items()
        if len(nodes) > 1
    ]


def _private(patient: Patient) -> list[Finding]:
    """An address that every client takes for its own machine."""
    given = [host for host, _ in patient.pool.settings.bootstrap]
    if all(map(_is_loopback, given)):
        return []
    return [
        problem(
            _LISTENERS,
            f"broker {node} sends clients to {format_address(address)}, which each takes for its own machine",
            f"# in server.properties of broker {node}; then restart it",
            f"advertised.listeners=PLAINTEXT://{given[0]}:{address[1]}",
        )
        for node, address in patient.nodes.items()
        if _is_loopback(address[0])
    ]


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _other_clusters(patient: Patient) -> AsyncIterator[Finding]:
    for node in patient.connections:
        answer = await patient.pool.ask(node, MetadataRequest([]), timeout=PATIENCE_S)
        if answer.cluster_id != patient.cluster_id:
            where = format_address(patient.nodes[node])
            yield problem(
                _LISTENERS,
                f"{where} should be broker {node} of cluster {patient.cluster_id}, but belongs to {answer.cluster_id}: "
                "two clusters share addresses",
            )
