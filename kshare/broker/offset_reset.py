"""Where a group starts in a partition that it hasn't read before: the config `share.auto.offset.reset`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kshare.broker.log import PartitionLog

OFFSET_RESET = "share.auto.offset.reset"
_DURATION = re.compile(
    r"by_duration:P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_MS = (86_400_000, 3_600_000, 60_000, 1000)


def is_offset_reset(value: str) -> bool:
    return value.lower() in ("earliest", "latest") or _DURATION.fullmatch(value) is not None


def initial_start_offset(reset: str, log: PartitionLog, now: int) -> int:
    """As in real brokers: OFFSET_NOT_AVAILABLE if a duration is configured and all records are older."""
    reset = reset.lower()
    if reset == "earliest":
        return log.start_offset
    if reset == "latest":
        return log.high_watermark
    duration = _DURATION.fullmatch(reset)
    assert duration, "checked when it was set"
    age = sum(float(part or 0) * unit for part, unit in zip(duration.groups(), _MS, strict=True))
    found = log.first_from(now - int(age))
    if found is None:
        raise RequestError(ErrorCode.OFFSET_NOT_AVAILABLE, f"no record is as recent as {reset} requires")
    return found[1]
