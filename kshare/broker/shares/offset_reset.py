"""The start offset of a group in a partition that it hasn't read before: `share.auto.offset.reset`."""

from __future__ import annotations

import re

from kshare.broker.configs import Configs
from kshare.broker.log import PartitionLog
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode

_SETTING = "share.auto.offset.reset"
_DURATION = re.compile(
    r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_MS = (86_400_000, 3_600_000, 60_000, 1000)


def initial_start_offset(configs: Configs, group: str, log: PartitionLog, now: int) -> int:
    """As in real brokers: OFFSET_NOT_AVAILABLE if a duration is configured and all records are older."""
    reset = configs.group(group, _SETTING).lower()
    if reset == "earliest":
        return log.start_offset
    if reset == "latest":
        return log.high_watermark
    found = log.first_from(now - duration_ms(reset))
    if found is None:
        raise RequestError(ErrorCode.OFFSET_NOT_AVAILABLE, f"no record is as recent as {reset} requires")
    return found[1]


def duration_ms(reset: str) -> int:
    """The duration in by_duration:PnDTnHnMn.nS, which `configs` has validated."""
    match = _DURATION.fullmatch(reset)
    assert match, reset
    return int(sum(float(part or 0) * unit for part, unit in zip(match.groups(), _MS, strict=True)))
