"""Pending commits, and the results that the next commit returns in addition to its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from kshare.engine.confirmation import Confirmation, Loss, Results
from kshare.engine.notifier import Notifier
from kshare.errors import KshareError
from kshare.offset_ranges import OffsetRange, ranges_of, without
from kshare.state.acks import AckOutcome
from kshare.state.lease import ACCEPT, REJECT, RENEW, Lease

_MAX_LOSSES = 1000
"""The limit for consumers that never commit. Older losses are merged into the results, one for each partition."""
_RENEWS = bytes([RENEW])
"""The type of a range whose lock is to be renewed. Renewals are sent in requests of their own."""


class Commits:
    """`changed` is sent when a pending commit got an outcome."""

    def __init__(self, changed: Notifier) -> None:
        self.has_committed = False
        """Whether `commit` was ever called: then it may be called again at any moment."""
        self.results = Results()
        """Since the last commit."""
        self.losses: list[Loss] = []
        """Since the last commit: lost leases with records that were handed out and not acknowledged."""
        self._changed = changed
        self._waiting = 0
        self._confirmations: list[Confirmation] = []
        """The pending commits."""

    @property
    def is_confirming(self) -> bool:
        return self._waiting > 0

    @contextmanager
    def confirming(self) -> Iterator[None]:
        """While a caller waits for confirmation, acknowledgements are sent at once."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    @contextmanager
    def confirmation(self, leases: Iterable[Lease]) -> Iterator[Confirmation]:
        """Wait for acknowledgements decided so far in these leases. After an error, the next commit has the results.

        What pending commits were told already is told to this one, too: it may be about records that were acknowledged
        before this call, and their callers may be other tasks.
        """
        confirmation = Confirmation(leases)
        confirmation.results, self.results = self.results, Results()
        confirmation.losses, self.losses = self.losses, []
        for pending in self._confirmations:
            confirmation.results.add(pending.results)
            confirmation.losses += pending.losses
        self._confirmations.append(confirmation)
        self.has_committed = True
        self._waiting += 1
        try:
            yield confirmation
        except BaseException:
            self.results.add(confirmation.results)
            self.losses = [*dict.fromkeys([*confirmation.losses, *self.losses])]
            raise
        finally:
            self._waiting -= 1
            self._confirmations.remove(confirmation)

    def on_outcome(self, outcome: AckOutcome, error: KshareError | None) -> None:
        """Report an outcome to the commits that wait for it. The next one gets what none of them waits for."""
        is_renewal = all(ack.types == _RENEWS for ack in outcome.ranges)
        settled = partial(_settled, outcome)
        rest = [(ack.first, ack.last) for ack in outcome.ranges]
        if self._confirmations:
            awaited = [
                span
                for confirmation in self._confirmations
                for span in confirmation.on_outcome(
                    outcome.partition, rest, error, is_renewal=is_renewal, settled=settled
                )
            ]
            self._changed.send()
            rest = without(rest, sorted(awaited))
        if rest:
            self.results.note_outcome(outcome.partition, rest, error, settled=settled)

    def on_too_late(self, outcome: AckOutcome, error: KshareError | None) -> None:
        """Records were accepted only now, and their locks are lost: for the next commit.

        Pending ones don't wait for that, though they may wait for a later delivery of the same records.
        """
        self.results.note_outcome(outcome.partition, outcome.ranges, error)

    def on_loss(self, lease: Lease, error: KshareError) -> None:
        """Handed-out records were lost before they were acknowledged: for pending commits, or for the next one."""
        for losses in [confirmation.losses for confirmation in self._confirmations] or [self.losses]:
            losses.append((lease, error))
        while len(self.losses) > _MAX_LOSSES:
            oldest, error = self.losses.pop(0)
            if oldest.is_loss_reported:
                self.results.setdefault(oldest.partition, error)
            else:
                self.results.note_error(oldest.partition, error)


def _settled(outcome: AckOutcome) -> list[OffsetRange]:
    """The offsets that were accepted or rejected."""
    found: list[OffsetRange] = []
    for ack in outcome.ranges:
        if len(ack.types) == 1:
            if ack.types[0] in (ACCEPT, REJECT):
                found.append((ack.first, ack.last))
        else:
            found += ranges_of(at for at, kind in enumerate(ack.types, ack.first) if kind in (ACCEPT, REJECT))
    return found
