"""The events of a consumer. Users import them from `kshare.events`, which says what observers have to know.

Decides nothing. Events never contain keys, values or secrets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from kshare.errors import KshareError
from kshare.protocol.acknowledge_types import AcknowledgeType, AcknowledgeWord
from kshare.state.session import AckRange

AckType = AcknowledgeWord
"""An acknowledgement type. A gap is an offset without a record."""

_RUN = re.compile(rb"(.)\1*", re.DOTALL)


class Responded(NamedTuple):
    """A request got a response, or failed."""

    api: str
    """ShareFetch, ShareAcknowledge, ShareGroupHeartbeat, Metadata, FindCoordinator."""
    node: int | None
    seconds: float
    error: str | None
    """Kafka's name of the error, or the class of the exception if there was no response. None: success."""


class Fetched(NamedTuple):
    """A fetch returned records."""

    node: int
    records: int
    """Offsets acquired. If the log has gaps, there are fewer records."""
    size: int
    """Bytes of record batches, as received."""


class Acquired(NamedTuple):
    """Records of one partition were acquired together."""

    topic: str
    partition: int
    records: int
    delivery_count: int


class Refused(NamedTuple):
    """A broker returned an error for a partition, or for its acknowledgements."""

    api: str
    topic: str
    partition: int
    error: str


class Acknowledged(NamedTuple):
    """The outcome of acknowledgements of one partition: confirmed, refused or open."""

    topic: str
    partition: int
    acknowledged: tuple[AckRange, ...]
    error: KshareError | None
    """None if the broker has confirmed them."""
    is_open: bool
    """No response arrived. If the broker hasn't processed them, the records are redelivered."""

    def ranges(self) -> Iterator[tuple[int, int, AckType]]:
        """First offset, last offset and acknowledgement type of each range."""
        for first, last, types in self.acknowledged:
            if len(types) == 1:
                yield first, last, AcknowledgeType(types[0]).word
                continue
            for run in _RUN.finditer(types):
                yield first + run.start(), first + run.end() - 1, AcknowledgeType(types[run.start()]).word

    def counts(self) -> Mapping[AckType, int]:
        """The number of offsets for each acknowledgement type."""
        counts: Counter[AckType] = Counter()
        for first, last, ack_type in self.ranges():
            counts[ack_type] += last - first + 1
        return counts


class Finished(NamedTuple):
    """All records of a batch are acknowledged, and the broker has confirmed that."""

    topic: str
    partition: int
    records: int
    seconds: float
    """Since the batch was handed out."""


class Skipped(NamedTuple):
    """Records were redelivered that the user had accepted. They were accepted again without being handed out."""

    topic: str
    partition: int
    records: int


class Damaged(NamedTuple):
    """Part of a response couldn't be verified. The offsets that it may have contained were released."""

    topic: str
    partition: int
    records: int
    """The number of offsets released."""
    reason: str


class GivenBack(NamedTuple):
    """Records that hadn't been handed out were released, or their locks were lost."""

    topic: str
    partition: int
    records: int
    deliveries_left: int
    """How often they can still be delivered. With 0, the broker archives them."""


class LeaseRenewed(NamedTuple):
    """Acquisition locks were renewed."""

    topic: str
    partition: int
    records: int


LossReason = Literal["expired", "session", "topic", "moved"]


class LeaseLost(NamedTuple):
    """Acquisition locks were lost before the records were settled. The records are redelivered."""

    topic: str
    partition: int
    records: int
    reason: LossReason


class SessionEnded(NamedTuple):
    """A share session ended. Everything acquired in it was released."""

    node: int
    reason: str
    """Kafka's name of the error, or the class of the exception."""


class Assigned(NamedTuple):
    """The coordinator assigned partitions."""

    partitions: Mapping[str, tuple[int, ...]]
    """All partitions that are assigned to this member now, by topic."""
    gained: int
    lost: int


class Poisoned(NamedTuple):
    """A deserializer raised for a record."""

    topic: str
    partition: int
    offset: int
    part: str


Event = (
    Responded
    | Fetched
    | Acquired
    | Refused
    | Acknowledged
    | Finished
    | Skipped
    | Damaged
    | GivenBack
    | LeaseRenewed
    | LeaseLost
    | SessionEnded
    | Assigned
    | Poisoned
)
Observer = Callable[[Event], None]
OnSettled = Callable[[Acknowledged], None]
