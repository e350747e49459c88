"""API versions and features of the Kafka releases that the broker can emulate.

The numbers are from the ApiVersions responses of these releases.
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
    27: (1, 2),  # WriteTxnMarkers
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
    43: (0, 2),  # ElectLeaders
    44: (0, 1),  # IncrementalAlterConfigs
    45: (0, 1),  # AlterPartitionReassignments
    46: (0, 0),  # ListPartitionReassignments
    47: (0, 0),  # OffsetDelete
    48: (0, 1),  # DescribeClientQuotas
    49: (0, 1),  # AlterClientQuotas
    50: (0, 0),  # DescribeUserScramCredentials
    51: (0, 0),  # AlterUserScramCredentials
    55: (0, 2),  # DescribeQuorum
    57: (0, 2),  # UpdateFeatures
    60: (0, 2),  # DescribeCluster
    61: (0, 0),  # DescribeProducers
    64: (0, 0),  # UnregisterBroker
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
    27: (1, 1),
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
    def can_renew(self) -> bool:
        """Since 4.2."""
        return self.versions[78][1] >= 2

    @property
    def can_alter_offsets(self) -> bool:
        """Since 4.2. Earlier brokers accepted the request and did nothing."""
        return self.can_renew

    @property
    def fetches_around_unknown_topics(self) -> bool:
        """Since 4.4. Earlier, one unknown topic in a share session was an error for the whole session."""
        return self.has_dead_letters

    @property
    def has_assignment_intervals(self) -> bool:
        """Since 4.2: consumer groups wait between assignments. Earlier, there was no such setting.

        Since then, members also keep the epoch in which they got each partition.
        """
        return self.can_renew

    @property
    def assigns_at_once_after_empty(self) -> bool:
        """Since 4.4. Earlier, the next member of an empty group waited for the assignment interval."""
        return self.has_dead_letters

    @property
    def rebalances_for_assignor(self) -> bool:
        """Since 4.4: a consumer group is assigned again as soon as its members prefer another assignor."""
        return self.has_dead_letters

    @property
    def has_dead_letters(self) -> bool:
        """Since 4.4."""
        return self.features["share.version"][1] >= 2


def profile(release: str) -> Profile:
    """The profile of release "4.1", "4.3" or "4.4"."""
    others = {"4.4": dict[int, tuple[int, int]](), "4.3": _OTHER_IN_4_3, "4.1": _OTHER_IN_4_1}[release]
    features = {f"{name}.version": levels for name, levels in _FEATURES[release].items()}
    return Profile(release, {**_VERSIONS_OF_4_4, **others}, features)
