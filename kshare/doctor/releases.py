"""Kafka releases with known defects of share groups, and how to tell which release a broker runs.

Brokers don't say their release. The highest metadata.version that a broker supports tells the minor release, but not
the patch: if only the first patches of a minor release have a defect, its brokers *may* have it.

A defect is listed if its issue, and the code of the releases, prove it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kshare.net.versions import BrokerVersions
from kshare.protocol.messages import ShareAcknowledgeRequest

MinorRelease = tuple[int, int]

_METADATA = "metadata.version"
_LEVELS: Mapping[int, MinorRelease] = {27: (4, 1), 29: (4, 2), 30: (4, 3), 33: (4, 4)}
"""The highest level that a release supports → the release."""
_RENEWING = 2
"""The version of ShareAcknowledge that 4.2 added."""


@dataclass(frozen=True, slots=True)
class KnownDefect:
    has: frozenset[MinorRelease]
    """All patches of these releases have it."""
    may_have: frozenset[MinorRelease]
    """Only the first patches of these have it."""
    text: str
    """Which releases have it, what happens, and the release in which it is fixed."""


# 4.1.2 and 4.2.0 complete a request's future while they hold a share-partition's lock; since 4.2.1 and 4.3.0 the lock
# is released before.
DEADLOCK = KnownDefect(
    frozenset({(4, 1)}),
    frozenset({(4, 2)}),
    "4.1.x and 4.2.0 have a known deadlock in share groups (KAFKA-20505: records of a session that ends are released "
    "while others fetch), after which a broker doesn't respond until it is restarted; upgrade to 4.2.1 or newer",
)
# 4.1.2, 4.2.1 and 4.3.1 leave the start of every new partition to share.auto.offset.reset; 4.4.0 starts those of topics
# that the group reads already at offset 0.
SKIPPED_RECORDS = KnownDefect(
    frozenset({(4, 1), (4, 2), (4, 3)}),
    frozenset(),
    "before Kafka 4.4, a group skips records that are written to added partitions before its members have noticed them "
    "(KAFKA-20742)",
)
# 4.1.2 and 4.2.0 split the key of a share-partition, GROUP:TOPIC_ID:PARTITION, at each colon; 4.2.1 doesn't.
COLON_IN_NAME = KnownDefect(
    frozenset({(4, 1)}),
    frozenset({(4, 2)}),
    "before Kafka 4.2.1, brokers may not find the share coordinator of a group whose name contains a colon; its "
    "members then receive nothing, without an error (KAFKA-20183)",
)


def minor_release(versions: BrokerVersions) -> MinorRelease | None:
    """None if it can't be told: a development version, or a release that is newer than our table."""
    acknowledge = versions.common(ShareAcknowledgeRequest)
    if acknowledge is not None and acknowledge[1] < _RENEWING:
        return 4, 1
    return _LEVELS.get(versions.possible_features.get(_METADATA, 0))
