"""The durable states of share-partitions, read from `__share_group_state` as any consumer may.

Decides where in the topic a share-partition's records are, and reads those partitions from their beginning: brokers
keep them short, for a snapshot makes what was before it superfluous. What records mean is decided by
`kshare.state.share_records`. The state is as durable as it was when reading began; locks are not in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.log_reading import LogReader
from kshare.admin.routing import Router
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.json_form import uuid_text
from kshare.state.share_records import TOPIC, SharePartition, ShareState, ShareStates


def home_of(where: SharePartition, partition_count: int) -> int:
    """The partition of the topic that holds its records: Java's hash of the coordinator's key."""
    number = 0
    for unit in _utf16(f"{where.group}:{uuid_text(where.topic_id)}:{where.partition}"):
        number = (number * 31 + unit) & 0xFFFFFFFF
    signed = number - (1 << 32) if number >> 31 else number
    return (0 if signed == -(1 << 31) else abs(signed)) % partition_count


async def share_states(router: Router, wanted: Iterable[SharePartition]) -> dict[SharePartition, ShareState]:
    """Those that there are. Where the topic doesn't exist yet no group has ever stored anything."""
    try:
        metadata = await router.metadata([TOPIC])
    except BrokerError as error:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return {}
        raise
    topic = metadata.topics[0]
    homes: dict[int, set[SharePartition]] = defaultdict(set)
    for where in wanted:
        homes[home_of(where, len(topic.partitions))].add(where)
    places = [(TOPIC, number) for number in homes]
    firsts = await log_offsets(router, places, EARLIEST)
    ends = await log_offsets(router, places, LATEST)
    found: dict[SharePartition, ShareState] = {}
    for number, sought in homes.items():
        place = (TOPIC, number)
        states = await _fold(router, (topic.topic_id, number), firsts[place], ends[place])
        found |= {where: states[where] for where in sought if where in states}
    return found


async def _fold(
    router: Router, place: tuple[bytes, int], first: int, end: int
) -> dict[SharePartition, ShareState]:
    """Anew as a whole when its beginning was cut off meanwhile: a newer snapshot stands farther back."""
    fold = ShareStates()
    try:
        async for batch in LogReader(router).batches(place, first, end):
            for record in batch:
                fold.apply(record.key, record.value)
    except BrokerError as error:
        if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        now = await log_offsets(router, [(TOPIC, place[1])], EARLIEST)
        if now[TOPIC, place[1]] <= first:
            raise
        return await _fold(router, place, now[TOPIC, place[1]], max(end, now[TOPIC, place[1]]))
    return fold.states


def _utf16(text: str) -> memoryview:
    """As Java sees characters."""
    return memoryview(text.encode("utf-16-le")).cast("H")
