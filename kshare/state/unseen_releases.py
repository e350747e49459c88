"""What it costs to give back records that nobody has seen: a pause before more of their partition are acquired.

Each release counts as a delivery, and at the group's limit the broker archives the record. Without a pause, records
that are released and acquired again in a loop are archived within milliseconds.

    event                                        | effect
    ---------------------------------------------+----------------------------------------------------------------
    records of a partition are released unseen   | nothing of the partition is acquired for `FIRST_S`
    again, or they were delivered before         | `GROWTH` times as long for each time, up to `LONGEST_S`
    only one delivery is left to them            | `LONGEST_S` at once
    more during the pause                        | part of the same release; a longer pause counts
    `MOST_A_MINUTE` releases within a minute     | nothing until the first of them is a minute ago
    records of the partition reach the user      | the next pause is short again, unless the minute is used up
    `stop`                                       | nothing any more

`Price` says how many deliveries are left. Whoever releases logs a line with topic, partition and offsets if these are
fewer than `SAFE_LEFT`: see `LeaseBook.release_unseen`, which all releases of this kind go through.

Decides how long to wait and what is worth a warning. Never releases anything, never reads a clock; times are passed in.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from kshare.state.lease import TopicIdPartition

DEFAULT_LIMIT = 5
"""Kafka's default of `group.share.delivery.count.limit`."""
FIRST_S = 0.5
GROWTH = 4
LONGEST_S = 60.0
MOST_A_MINUTE = 6
MINUTE_S = 60.0
SAFE_LEFT = 2


class Price(NamedTuple):
    """What a release costs."""

    pause_s: float
    """For how long nothing of the partition should be acquired."""
    left: int
    """How many deliveries are left to these records. With none, the broker archives them."""


@dataclass(slots=True)
class _Pause:
    level: int = 0
    """The number of releases in a row."""
    until: float = -math.inf
    times: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_A_MINUTE))
    """When the latest releases were."""


class UnseenReleases:
    """The pauses of all partitions of one member."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        """The group's delivery count limit, as far as it is known. It may be replaced at any time."""
        self._pauses: dict[TopicIdPartition, _Pause] = {}

    def __len__(self) -> int:
        """The number of partitions that are remembered."""
        return len(self._pauses)

    def left(self, delivery_count: int) -> int:
        """How many deliveries are left to records that are given back now."""
        return max(0, self.limit - delivery_count)

    def price(self, partition: TopicIdPartition, delivery_count: int, now: float) -> Price:
        """What `on_released` would return. `delivery_count`: as the records were delivered this time."""
        pause = self._pauses.get(partition, _Pause())
        level = max(1, pause.level) if now < pause.until else pause.level + 1
        left = self.left(delivery_count)
        seconds = min(LONGEST_S, FIRST_S * GROWTH ** (min(max(level, delivery_count), 20) - 1))
        if left == 1:
            seconds = LONGEST_S
        times = [time for time in pause.times if now - time < MINUTE_S]
        if len(times) >= MOST_A_MINUTE - (now >= pause.until):
            seconds = max(seconds, times[0] + MINUTE_S - now)
        return Price(max(seconds, pause.until - now), left)

    def on_released(self, partition: TopicIdPartition, delivery_count: int, now: float) -> Price:
        """Records that nobody saw are given back now, or will be when the pause is over."""
        price = self.price(partition, delivery_count, now)
        pause = self._pauses.setdefault(partition, _Pause())
        if now >= pause.until:
            pause.level += 1
            pause.times.append(now)
        pause.until = now + price.pause_s
        return price

    def stop(self, partition: TopicIdPartition) -> None:
        """Acquire nothing of the partition any more: a delivery would be wasted, or the last one."""
        self._pauses.setdefault(partition, _Pause()).until = math.inf

    def on_seen(self, partition: TopicIdPartition) -> None:
        """Records of the partition were handed to the user."""
        pause = self._pauses.get(partition)
        if pause is not None:
            pause.level = 0

    def is_paused(self, partition: TopicIdPartition, now: float) -> bool:
        """Whether nothing of the partition should be acquired now."""
        pause = self._pauses.get(partition)
        return pause is not None and now < pause.until

    def next_end(self, now: float) -> float:
        """When the next pause ends; infinite if there is none."""
        self._forget(now)
        return min((pause.until for pause in self._pauses.values() if pause.until > now), default=math.inf)

    def _forget(self, now: float) -> None:
        for partition in [
            partition
            for partition, pause in self._pauses.items()
            if now >= max(pause.until, pause.times[-1] if pause.times else now) + MINUTE_S
        ]:
            del self._pauses[partition]
