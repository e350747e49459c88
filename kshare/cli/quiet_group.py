"""Why a share group gives nothing: asked of the cluster, and said with what to type.

Decides what is likely. Where the cluster doesn't answer, or forbids the question, nothing is said.
"""

from __future__ import annotations

import anyio

from kshare.admin import configs, offsets
from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.results import PartitionOffset
from kshare.admin.routing import Router
from kshare.client.config import ConsumerConfig
from kshare.errors import BrokerError, KshareError
from kshare.net.pool import Pool
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeShareGroupOffsetsRequest

_PATIENCE_S = 5.0
_TELLS_LAG = 1
"""The version since which brokers say the lag; those that do can set offsets of groups, too."""
_RESET = "share.auto.offset.reset"


async def why_quiet(config: ConsumerConfig) -> str | None:
    try:
        with anyio.move_on_after(_PATIENCE_S):
            async with Pool(config.net_settings()) as pool:
                connection = await pool.connection(None)
                can_reset = connection.version_for(DescribeShareGroupOffsetsRequest) >= _TELLS_LAG
                router = Router(pool, _PATIENCE_S)
                return await _why(router, config.group, list(config.topics), can_reset=can_reset)
    except BrokerError as error:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return f"nothing yet: {error}"
    except KshareError:
        pass
    return None


async def _why(router: Router, group: str, topics: list[str], *, can_reset: bool) -> str:
    rows = await offsets.share_group_offsets(router, group, dict.fromkeys(topics))
    places = [(row.topic, row.partition) for row in rows]
    first = await log_offsets(router, places, EARLIEST)
    end = await log_offsets(router, places, LATEST)
    if all(first[place] == end[place] for place in places):
        return f"nothing yet: {', '.join(topics)} {'is' if len(topics) == 1 else 'are'} empty"
    lag = sum(_lag(row, end[row.topic, row.partition]) for row in rows)
    if lag:
        return (
            f"nothing yet, though {lag} records aren't settled: other members may hold them "
            f"(kshare groups describe {group} --members), or locks of members that are gone"
        )
    reset = {one.name: one.value for one in await configs.group_config(router, group)}.get(_RESET)
    begins = f"It began by {_RESET}={reset}" if reset not in (None, "latest") else "A new group begins there"
    names = " ".join(f"--topic {topic}" for topic in topics)
    how = (
        f"stop this, and kshare groups reset-offsets {group} {names} --to-earliest --execute"
        if can_reset
        else f"take a new group, after kshare groups config set NEW {_RESET}=earliest"
    )
    return (
        f"nothing yet: group {group} is at the end of {', '.join(topics)}. "
        f"{begins}; to see what is there already, {how}"
    )


def _lag(row: PartitionOffset, end: int) -> int:
    """Kafka 4.1 doesn't say it; then all behind the start counts."""
    if row.lag is not None:
        return row.lag
    return 0 if row.start_offset is None else end - row.start_offset
