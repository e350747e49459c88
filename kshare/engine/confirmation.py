"""What one `commit` waits for: all that was decided when it was called, and what becomes of that.

Decided later is not waited for, so a consumer that decides all the time doesn't keep its commits waiting. Pure: told of
outcomes, and looks at leases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kshare.errors import KshareError
from kshare.state.lease import GAP, RENEW, SENT, Lease, TopicIdPartition

Loss = tuple[Lease, KshareError]
Results = dict[TopicIdPartition, KshareError | None]
NameT = TypeVar("NameT")
"""What a partition is called."""
_Range = tuple[int, int]


class Confirmation:
    """`results` has, by partition, None where all was confirmed, or what went wrong last."""

    def __init__(self, leases: Iterable[Lease]) -> None:
        self.results: Results = {}
        self.losses: list[Loss] = []
        """Of records of which nothing was said, since the last commit."""
        self._open: list[tuple[Lease, list[_Range]]] = []
        for lease in leases:
            spans = _unanswered(lease, lease.first, lease.last)
            if spans:
                self._open.append((lease, spans))

    @property
    def is_settled(self) -> bool:
        """Nothing of it is waiting to leave, or to be answered."""
        # Some decisions end without an outcome: gaps and renewals of a session that is lost.
        self._open = [
            (lease, spans)
            for lease, spans in self._open
            if any(_unanswered(lease, first, last) for first, last in spans)
        ]
        return not self._open

    def on_outcome(
        self, partition: TopicIdPartition, ranges: Sequence[tuple[int, int]], error: KshareError | None
    ) -> bool:
        """False: it has nothing to do with this one."""
        is_ours = False
        left = []
        for lease, spans in self._open:
            if lease.partition == partition:
                others = _without(spans, ranges)
                is_ours = is_ours or others != spans
                spans = others
            if spans:
                left.append((lease, spans))
        self._open = left
        if is_ours:
            note(self.results, partition, error)
        return is_ours

    def all_results(
        self, topic_partition_of: Callable[[TopicIdPartition], NameT]
    ) -> dict[NameT, KshareError | None]:
        """With the losses, as users name partitions: a topic that was created anew is another one by the same name.

        A loss that the user has had an error for doesn't cover what was confirmed since.
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
    """What went wrong outlasts what went well."""
    if error is not None or partition not in results:
        results[partition] = error


def _unanswered(lease: Lease, first: int, last: int) -> list[_Range]:
    """What is decided and not sent, or sent and not answered."""
    runs = lease.runs_within(first, last, GAP, RENEW) + lease.runs_within(
        first, last, SENT | GAP, SENT | RENEW
    )
    return sorted((lease.first + start, lease.first + end - 1) for start, end in runs)


def _without(spans: Sequence[_Range], gone: Sequence[_Range]) -> list[_Range]:
    """What is left of the spans; both in the order of their offsets."""
    left: list[_Range] = []
    start = 0
    for first, last in spans:
        while start < len(gone) and gone[start][1] < first:
            start += 1
        at = start
        while at < len(gone) and gone[at][0] <= last:
            if first < gone[at][0]:
                left.append((first, gone[at][0] - 1))
            first = max(first, gone[at][1] + 1)
            at += 1
        if first <= last:
            left.append((first, last))
    return left
