"""Do the brokers know share groups, and are they switched on?"""

from __future__ import annotations

from collections.abc import AsyncIterator

from kshare.cli.checkup.finding import Finding, ok, problem, warning
from kshare.cli.checkup.patient import Patient
from kshare.net.share_groups import FEATURE
from kshare.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest

_CHECK = "share groups"
_NEEDED = (ShareGroupHeartbeatRequest, ShareFetchRequest, ShareAcknowledgeRequest)
_RENEWING = 2


async def known(patient: Patient) -> AsyncIterator[Finding]:
    """Every broker must know the requests, or partitions that it leads can't be read."""
    versions: dict[int, int] = {}
    for node, connection in patient.connections.items():
        missing = [one.NAME.removesuffix("Request") for one in _NEEDED if not connection.supports(one)]
        if missing:
            yield problem(
                _CHECK,
                f"broker {node} has no {', '.join(missing)}: share groups need Kafka 4.1 or newer, upgrade it",
            )
        else:
            versions[node] = connection.version_for(ShareAcknowledgeRequest)
    old = [str(node) for node, version in versions.items() if version < _RENEWING]
    if not old:
        return
    # Futures are completed under a share-partition's lock there, and no longer in 4.2.1, as its code shows.
    deadlock = (
        "Kafka 4.1 has a known deadlock in share groups (KAFKA-20505: releasing the records of a session that ends, "
        "against a fetch), after which a broker answers nothing until it is restarted; upgrade to Kafka 4.2.1 or newer"
    )
    if len(old) < len(versions):
        yield warning(
            _CHECK,
            f"brokers {', '.join(old)} are older than the others: leases of records that they lead can't be renewed, "
            f"and {deadlock}",
        )
    else:
        brokers = f"broker {old[0]} runs" if len(old) == 1 else f"brokers {', '.join(old)} run"
        yield warning(_CHECK, f"{brokers} Kafka 4.1: {deadlock}")


async def switched_on(patient: Patient) -> AsyncIterator[Finding]:
    for connection in patient.connections.values():
        versions = connection.versions
        level, possible = versions.features.get(FEATURE, 0), versions.possible_features.get(FEATURE, 0)
        if level >= 1:
            yield ok(_CHECK, f"{FEATURE} is {level}")
        elif possible >= 1:
            yield problem(
                _CHECK,
                f"{FEATURE} is 0: share groups are switched off, as they are in Kafka 4.1 unless asked for",
                f"kafka-features.sh --bootstrap-server {patient.server} upgrade --feature {FEATURE}=1",
            )
        else:
            yield problem(_CHECK, f"the brokers can't run {FEATURE}=1: upgrade them to Kafka 4.1 or newer")
        return
