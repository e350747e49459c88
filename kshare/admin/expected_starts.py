"""Where a group starts in a partition of which it hasn't settled or released a single record.

Until then, brokers store no start offset, and report -1. The leader of the partition has decided it when a member first
fetched, but tells nobody. It follows from the group's `share.auto.offset.reset`:

    reset       | start                                | lag
    ------------+--------------------------------------+------------------------------------------
    earliest    | the first record of the log          | all records
    latest      | the end of the log at the first fetch| unknown: nobody knows what was written since
    by_duration | so long before the first fetch       | unknown
    (any)       | the end, if the log is empty         | 0
"""

from __future__ import annotations

from dataclasses import replace

from kshare.admin import configs
from kshare.admin.configs import ConfigResource
from kshare.admin.results import PartitionProgress
from kshare.admin.routing import Router
from kshare.errors import BrokerError

RESET = "share.auto.offset.reset"
EARLIEST_RESET = "earliest"


def with_expected_start(known: PartitionProgress, reset: str | None) -> PartitionProgress:
    """`reset` is None if we may not read it. A partition whose start offset is known remains as it is."""
    first, end = known.log_start_offset, known.end_offset
    if known.start_offset is not None or first is None or end is None:
        return known
    if reset != EARLIEST_RESET and first < end:
        return replace(known, reset=reset)
    is_state_known = known.deliveries is not None
    return replace(
        known,
        reset=reset,
        expected_start=first,
        lag=end - first,
        window_end=first if is_state_known else None,
    )


async def reset_of(router: Router, group: str) -> str | None:
    """None if we aren't authorized to read the configuration."""
    try:
        found = await configs.describe(router, ConfigResource.GROUP, group, keys=[RESET])
    except BrokerError:
        return None
    return next((entry.value for entry in found if entry.name == RESET), None)
