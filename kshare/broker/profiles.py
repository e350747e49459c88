"""API versions and features of the Kafka releases that the broker can emulate.

The numbers are from the ApiVersions responses of these releases, which have APIs besides that this broker doesn't.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Release = Literal["4.1", "4.3", "4.4"]
RELEASES: tuple[Release, ...] = get_args(Release)
DEFAULT_RELEASE: Release = "4.4"

_VERSIONS_OF_4_4 = {
    0: (0, 13),  # Produce
    1: (4, 18),  # Fetch
    2: (1, 11),  # ListOffsets
    3: (0, 13),  # Metadata
    8: (2, 10),  # OffsetCommit
    9: (1, 10),  # OffsetFetch
    10: (0, 6),  # FindCoordinator
    11: (0, 9),  # JoinGroup
    12: (0, 4),  # Heartbeat
    13: (0, 5),  # LeaveGroup
    14: (0, 5),  # SyncGroup
    15: (0, 6),  # DescribeGroups
    16: (0, 5),  # ListGroups
    17: (0, 1),  # SaslHandshake
    18: (0, 5),  # ApiVersions
    19: (2, 7),  # CreateTopics
    20: (1, 6),  # DeleteTopics
    21: (0, 2),  # DeleteRecords
    22: (0, 5),  # InitProducerId
    23: (2, 4),  # OffsetForLeaderEpoch
    24: (0, 5),  # AddPartitionsToTxn
    25: (0, 4),  # AddOffsetsToTxn
    26: (0, 5),  # EndTxn
    28: (0, 6),  # TxnOffsetCommit
    29: (1, 3),  # DescribeAcls
    30: (1, 3),  # CreateAcls
    31: (1, 3),  # DeleteAcls
    32: (1, 4),  # DescribeConfigs
    33: (0, 2),  # AlterConfigs
    35: (1, 5),  # DescribeLogDirs
    36: (0, 2),  # SaslAuthenticate
    37: (0, 3),  # CreatePartitions
    42: (0, 3),  # DeleteGroups
    44: (0, 1),  # IncrementalAlterConfigs
    47: (0, 0),  # OffsetDelete
    55: (0, 2),  # DescribeQuorum
    60: (0, 2),  # DescribeCluster
    61: (0, 0),  # DescribeProducers
    65: (0, 0),  # DescribeTransactions
    66: (0, 2),  # ListTransactions
    68: (0, 1),  # ConsumerGroupHeartbeat
    69: (0, 1),  # ConsumerGroupDescribe
    71: (0, 0),  # GetTelemetrySubscriptions
    72: (0, 0),  # PushTelemetry
    74: (0, 1),  # ListConfigResources
    75: (0, 0),  # DescribeTopicPartitions
    76: (1, 1),  # ShareGroupHeartbeat
    77: (1, 1),  # ShareGroupDescribe
    78: (1, 2),  # ShareFetch
    79: (1, 2),  # ShareAcknowledge
    83: (0, 0),  # InitializeShareGroupState
    84: (0, 0),  # ReadShareGroupState
    85: (0, 1),  # WriteShareGroupState
    86: (0, 0),  # DeleteShareGroupState
    87: (0, 1),  # ReadShareGroupStateSummary
    90: (0, 1),  # DescribeShareGroupOffsets
    91: (0, 0),  # AlterShareGroupOffsets
    92: (0, 0),  # DeleteShareGroupOffsets
}
_OTHER_IN_4_3: dict[int, tuple[int, int]] = {18: (0, 4), 28: (0, 5), 42: (0, 2)}
_OTHER_IN_4_1: dict[int, tuple[int, int]] = {
    2: (1, 10),
    8: (2, 9),
    9: (1, 9),
    18: (0, 4),
    28: (0, 5),
    35: (1, 4),
    42: (0, 2),
    78: (1, 1),
    79: (1, 1),
    85: (0, 0),
    87: (0, 0),
    90: (0, 0),
}

_FEATURES = {
    "4.4": {"group": (0, 1), "metadata": (7, 33), "share": (0, 2), "transaction": (0, 2)},
    "4.3": {"group": (0, 1), "metadata": (7, 30), "share": (0, 1), "transaction": (0, 2)},
    "4.1": {"group": (0, 1), "metadata": (7, 27), "share": (0, 1), "transaction": (0, 2)},
}


@dataclass(frozen=True, slots=True)
class Profile:
    """A release that the broker can emulate."""

    release: str
    versions: Mapping[int, tuple[int, int]]
    """API key → first and last version."""
    features: Mapping[str, tuple[int, int]]
    """Feature → minimum and maximum level. The maximum is in effect."""

    @property
    def since_4_2(self) -> bool:
        return self.versions[78][1] >= 2

    @property
    def since_4_4(self) -> bool:
        return self.features["share.version"][1] >= 2

    def offers(self, api_key: int, version: int) -> bool:
        first, last = self.versions.get(api_key, (0, -1))
        return first <= version <= last


def profile(release: str) -> Profile:
    """The profile of release "4.1", "4.3" or "4.4"."""
    others = {"4.4": dict[int, tuple[int, int]](), "4.3": _OTHER_IN_4_3, "4.1": _OTHER_IN_4_1}[release]
    features = {f"{name}.version": levels for name, levels in _FEATURES[release].items()}
    return Profile(release, {**_VERSIONS_OF_4_4, **others}, features)
