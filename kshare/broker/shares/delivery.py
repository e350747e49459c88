"""The delivery state of a record: its transitions, and how poison records are isolated.

    state        | event                                 | next         | note
    -------------+---------------------------------------+--------------+--------------------------------------
    available    | acquire                               | acquired     | delivery count + 1, lock starts
    acquired     | accept                                | acknowledged |
    acquired     | release, lock runs out, session ends  | available    | below the delivery count limit
    acquired     | release, lock runs out, session ends  | archived     | at the limit: a dead letter
    acquired     | reject                                | archived     | a dead letter
    acquired     | gap                                   | archived     | there is no record: nothing to bury
    acquired     | renew                                 | acquired     | the lock is extended
    available    | the log's start moves past it         | archived     |

Records that were delivered often are delivered in ever smaller company: from half of the limit on, each delivery
halves what is handed out of a batch, and the last attempt is alone. So a record that kills its consumer takes fewer
and fewer others to their limit.

Decides the states of single records. Which records are meant is `window`'s subject.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class RecordState(IntEnum):
    """By the numbers of Kafka's share-group state."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        return self >= RecordState.ACKNOWLEDGED


class AckType(IntEnum):
    """What an acknowledgement says."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class ArchiveCause(IntEnum):
    """Why a record was archived that somebody might still want."""

    REJECTED = 0
    TOO_MANY_DELIVERIES = 1


@dataclass(slots=True)
class Delivery:
    """Where one record stands, or all records of a batch that are alike."""

    state: RecordState = RecordState.AVAILABLE
    count: int = 0
    member: str = ""
    """Who holds it while it is acquired."""
    lock_until: int = 0

    def acquire(self, member: str, lock_until: int) -> None:
        self.state = RecordState.ACQUIRED
        self.count += 1
        self.member = member
        self.lock_until = lock_until

    def settle(self, state: RecordState) -> None:
        self.state = state
        self.member = ""
        self.lock_until = 0

    def is_held_by(self, member: str) -> bool:
        return self.state is RecordState.ACQUIRED and self.member == member

    def copy(self) -> Delivery:
        return Delivery(self.state, self.count, self.member, self.lock_until)


@dataclass(slots=True, frozen=True)
class GroupLimits:
    """What the group's configuration says at this moment."""

    deliveries: int = 5
    lock_ms: int = 30_000
    in_flight: int = 2000
    since_4_2: bool = True
    """Brokers before 4.2 didn't shrink company, nor count a delivery that ended with its session."""

    def after_release(self, count: int) -> RecordState:
        return RecordState.ARCHIVED if count >= self.deliveries else RecordState.AVAILABLE

    @property
    def suspicious_from(self) -> int:
        """The count of deliveries from which a record is handed out in smaller company."""
        return max(2, -(-self.deliveries // 2))

    def is_suspicious_count(self, count: int) -> bool:
        """Whether a record that was delivered so often is suspicious."""
        return self.since_4_2 and count >= self.suspicious_from

    def is_last(self, count: int) -> bool:
        """Whether the next delivery is the last one."""
        return count == self.deliveries - 1

    def max_records_with(self, count: int, batch_size: int) -> int:
        """How many records of a batch go out at most with one that was delivered so often."""
        if self.is_last(count):
            return 1
        return max(1, batch_size >> (count - self.suspicious_from + 1))
