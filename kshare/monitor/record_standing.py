"""Where one record stands for a share group, as far as brokers store it."""

from __future__ import annotations

from kshare.monitor.picture import Standing, sign_of
from kshare.monitor.snapshot import PartitionReading
from kshare.state.share_records import UNINITIALIZED_START_OFFSET
from kshare.wording import counted

_SETTLED = "settled: before the start offset"


def record_standing(reading: PartitionReading, offset: int) -> str:
    if reading.start is not None and offset < reading.start:
        return _SETTLED
    state = reading.state
    if state is None:
        return "unknown: the stored state can't be read" if reading.start is not None else "not delivered yet"
    if state.start_offset == UNINITIALIZED_START_OFFSET:
        return "not delivered yet: the group's start offset isn't decided"
    if offset < state.start_offset:
        return _SETTLED
    sign = sign_of(next(state.covering(offset, offset)))
    if sign.standing is Standing.RELEASED:
        return f"available after {counted(sign.deliveries, 'delivery').replace('deliverys', 'deliveries')}"
    return sign.standing.text
