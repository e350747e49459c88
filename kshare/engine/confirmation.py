"""What one `commit` waits for: everything that was decided when it was called, and its outcomes.

Decided later is not waited for, so a consumer that decides all the time doesn't keep its commits waiting. Pure: told of
outcomes, and looks at leases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kshare.errors import KshareError
from kshare.offset_ranges import OffsetRange, without
from kshare.protocol.acknowledge_types import AcknowledgeType
from kshare.state.lease import RENEW, SENT, Lease, TopicIdPartition, state_ranges
from kshare.state.session import AckRange

Loss = tuple[Lease, KshareError]
NameT = TypeVar("NameT")
"""How a partition is named in results."""
_WITHOUT_RESPONSE = state_ranges([*AcknowledgeType, *(SENT | kind for kind in AcknowledgeType)])
"""Of offsets that are decided and not sent, or sent and not confirmed."""
_RENEWALS = state_ranges([RENEW, SENT | RENEW])
_MAX_REFUSED = 1000
"""How many refused ranges of a partition to remember. With more, its error stays until the next commit."""


class Results(dict[TopicIdPartition, KshareError | None]):
    """For each partition None if everything was confirmed, or the last error.

    A refusal is dropped once the same records have been delivered again and their new acknowledgements are confirmed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._refused: dict[TopicIdPartition, list[OffsetRange]] = {}
        """Of partitions whose error later confirmations may supersede."""

    def note_outcome(
        self,
        partition: TopicIdPartition,
        ranges: Iterable[OffsetRange | AckRange],
        error: KshareError | None,
        *,
        settled: Callable[[], Sequence[OffsetRange]] = tuple,
    ) -> None:
        """`ranges` are the offsets that were confirmed or refused, sorted; `settled` returns those of them that were
        accepted or rejected. Only that makes up for a refusal: a renewal doesn't, nor the release of what came again
        and wasn't handed out."""
        if error is not None:
            if self.get(partition) is None:
                self._refused[partition] = []
            self[partition] = error
            if partition in self._refused:
                spans = sorted({*self._refused[partition], *((range_[0], range_[1]) for range_ in ranges)})
                self._refused[partition] = spans
                if len(spans) > _MAX_REFUSED:
                    del self._refused[partition]
        elif self.setdefault(partition, None) is not None and partition in self._refused:
            spans = without(self._refused[partition], settled())
            self._refused[partition] = spans
            if not spans:
                del self._refused[partition]
                self[partition] = None

    def note_error(self, partition: TopicIdPartition, error: KshareError) -> None:
        """This stays until the next commit."""
        self[partition] = error
        self._refused.pop(partition, None)

    def add(self, others: Results) -> None:
        for partition, error in others.items():
            if error is not None and partition not in others._refused:
                self.note_error(partition, error)
            else:
                self.note_outcome(partition, others._refused.get(partition, []), error)


class Confirmation:
    def __init__(self, leases: Iterable[Lease]) -> None:
        self.results = Results()
        self.losses: list[Loss] = []
        """Of records that weren't acknowledged, since the last commit."""
        self._open: list[tuple[Lease, list[OffsetRange]]] = []
        self._renewed: dict[Lease, list[OffsetRange]] = {}
        """Only their renewals are waited for: they weren't accepted, released or rejected yet."""
        for lease in leases:
            spans = lease.spans_in(lease.first, lease.last, _WITHOUT_RESPONSE)
            if spans:
                self._open.append((lease, spans))
                self._renewed[lease] = lease.spans_in(lease.first, lease.last, _RENEWALS)

    @property
    def is_settled(self) -> bool:
        """No acknowledgement of it is unsent or unconfirmed."""
        # Some decisions end without an outcome: gaps and renewals of a session that is lost.
        self._open = [
            (lease, spans)
            for lease, spans in self._open
            if any(lease.runs_in(first, last, _WITHOUT_RESPONSE) for first, last in spans)
        ]
        return not self._open

    def on_outcome(
        self,
        partition: TopicIdPartition,
        ranges: Sequence[tuple[int, int]],
        error: KshareError | None,
        *,
        is_renewal: bool = False,
        settled: Callable[[], Sequence[OffsetRange]] = tuple,
    ) -> list[OffsetRange]:
        """Returns those of the ranges that this commit waited for. The others were decided later.

        What was decided while its renewal was under way is still waited for: the response wasn't about that. The leases
        know of a renewal's response already. It was decided later all the same, so it isn't returned.
        """
        ours: list[OffsetRange] = []
        later: list[OffsetRange] = []
        remaining = []
        for lease, spans in self._open:
            if lease.partition == partition:
                unconfirmed = without(spans, ranges)
                responded = without(spans, unconfirmed)
                ours += responded
                if is_renewal:
                    for first, last in responded:
                        unconfirmed += lease.spans_in(first, last, _WITHOUT_RESPONSE)
                    unconfirmed.sort()
                else:
                    later += without(responded, without(responded, self._renewed[lease]))
                spans = unconfirmed
            if spans:
                remaining.append((lease, spans))
        self._open = remaining
        if ours:
            self.results.note_outcome(partition, sorted(ours), error, settled=settled)
        return without(sorted(ours), sorted(later))

    def all_results(
        self, topic_partition_of: Callable[[TopicIdPartition], NameT]
    ) -> dict[NameT, KshareError | None]:
        """Results and losses, by topic name: a recreated topic has the same name and another id.

        A loss that was raised to the user already doesn't replace later confirmations.
        """
        results: dict[NameT, KshareError | None] = {}
        for partition, outcome in self.results.items():
            note(results, topic_partition_of(partition), outcome)
        for lease, error in self.losses:
            if lease.is_loss_reported:
                results.setdefault(topic_partition_of(lease.partition), error)
            else:
                note(results, topic_partition_of(lease.partition), error)
        return results


def note(results: dict[NameT, KshareError | None], partition: NameT, error: KshareError | None) -> None:
    """An error is kept even if later acknowledgements are confirmed."""
    if error is not None or partition not in results:
        results[partition] = error
