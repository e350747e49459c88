"""The delivery state of a record: its transitions, and how poison records are isolated.

    state        | event                                 | next         | note
    -------------+---------------------------------------+--------------+--------------------------------------
    available    | acquire                               | acquired     | delivery count + 1, lock starts
    acquired     | accept                                | acknowledged |
    acquired     | release, lock expires, session ends   | available    | below the delivery count limit
    acquired     | release, lock expires, session ends   | archived     | at the limit: a dead letter
    acquired     | reject                                | archived     | a dead letter
    acquired     | gap                                   | archived     | there is no record, so no dead letter
    acquired     | renew                                 | acquired     | the lock is extended
    available    | the log's start moves past it         | archived     |

Records that were delivered often are delivered in ever smaller batches: from half of the delivery count limit on,
each delivery halves the number of records that are acquired of a batch, and on the last attempt a record is delivered
alone. So a record that makes its consumer crash takes fewer and fewer others to their limit.

Decides the states of single records. `window` finds the records.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class RecordState(IntEnum):
    """The state of a record. Numbers are those of Kafka's share-group state."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        return self >= RecordState.ACKNOWLEDGED


class ArchiveCause(IntEnum):
    """Why a record was archived without being accepted."""

    REJECTED = 0
    TOO_MANY_DELIVERIES = 1


@dataclass(slots=True)
class Delivery:
    """The delivery state of one record, or of all records of a batch if they have the same."""

    state: RecordState = RecordState.AVAILABLE
    count: int = 0
    member: str = ""
    """The member that has acquired it."""
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
    """The limits in the group's current configuration."""

    deliveries: int = 5
    lock_ms: int = 30_000
    in_flight: int = 2000
    since_4_2: bool = True
    """Brokers before 4.2 didn't reduce batches, and didn't count deliveries that ended with their session."""

    def after_release(self, count: int) -> RecordState:
        return RecordState.ARCHIVED if count >= self.deliveries else RecordState.AVAILABLE

    @property
    def suspicious_from(self) -> int:
        """The delivery count from which on a record is delivered in smaller batches."""
        return max(2, -(-self.deliveries // 2))

    def is_suspicious_count(self, count: int) -> bool:
        return self.since_4_2 and count >= self.suspicious_from

    def is_last(self, count: int) -> bool:
        """Whether the next delivery is the last one, after this many."""
        return count == self.deliveries - 1

    def max_records_with(self, count: int, batch_size: int) -> int:
        """The maximum number of records to acquire of a batch if one of them was delivered this often."""
        if self.is_last(count):
            return 1
        return max(1, batch_size >> (count - self.suspicious_from + 1))
