"""Explains why a share group returns no records, and suggests commands.

If the cluster doesn't respond, or permissions are missing, it gives no explanation.
"""

from __future__ import annotations

import anyio

from kshare.admin import configs, offsets
from kshare.admin.progress import ProgressReader
from kshare.admin.results import PartitionProgress
from kshare.admin.routing import Router
from kshare.admin.window_limits import WindowLimits
from kshare.client.config import ConsumerConfig
from kshare.errors import BrokerError, KshareError
from kshare.monitor.troubles import full_window, removed
from kshare.net.pool import Pool
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeShareGroupOffsetsRequest
from kshare.wording import counted, shell_word

_PATIENCE_S = 5.0
_TELLS_LAG = 1
"""From this version on, brokers report the lag. Such brokers can also reset the offsets of groups."""
_RESET = "share.auto.offset.reset"


async def explain_no_records(config: ConsumerConfig) -> str | None:
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
    quoted = shell_word(group)
    group_offsets = await offsets.share_group_offsets(router, group, dict.fromkeys(topics))
    rows = (await ProgressReader(router).read({group: group_offsets}))[group]
    lost = [removed(row) for row in rows if row.removed]
    full = [full_window(row) for row in rows if row.is_window_full]
    if full:
        return (
            f"nothing yet: {'; '.join(full + lost)}. A member holds that record: see "
            f"kshare groups describe {quoted} --members, and kshare doctor --group {quoted} for what to do"
        )
    if lost and not any(_lag(row) for row in rows):
        return f"nothing yet: {'; '.join(lost)}; nothing else is left to consume"
    if all(row.log_start_offset == row.end_offset for row in rows):
        return f"nothing yet: {', '.join(topics)} {'is' if len(topics) == 1 else 'are'} empty"
    lag = sum(_lag(row) for row in rows)
    if lag:
        limit = await WindowLimits(router).of(group)
        held = "it" if lag == 1 else f"some of them, about {limit} a partition at most"
        return (
            f"nothing yet, though {counted(lag, 'record')} {'is' if lag == 1 else 'are'} not settled: other members "
            f"may hold {held} (kshare groups describe {quoted} --members), or locks of stopped members haven't expired"
            f"{''.join(f'; {text}' for text in lost)}"
        )
    reset = {entry.name: entry.value for entry in await configs.group_config(router, group)}.get(_RESET)
    begins = (
        f"It started with {_RESET}={reset}" if reset not in (None, "latest") else "A new group starts there"
    )
    names = " ".join(f"--topic {shell_word(topic)}" for topic in topics)
    how = (
        f"stop this command and run kshare groups reset-offsets {quoted} {names} --to-earliest --execute"
        if can_reset
        else f"use a new group, after kshare groups config set NEW {_RESET}=earliest"
    )
    return (
        f"nothing yet: group {group} is at the end of {', '.join(topics)}. "
        f"{begins}; to read existing records, {how}"
    )


def _lag(row: PartitionProgress) -> int:
    """If it is unknown: all offsets from the start offset on."""
    if row.lag is not None:
        return row.lag
    if row.start_offset is None or row.end_offset is None:
        return 0
    return row.end_offset - row.start_offset
