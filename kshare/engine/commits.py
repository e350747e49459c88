"""Those who wait for acknowledgements to be confirmed, and what the next of them is told beside its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kshare.engine.confirmation import Confirmation, Loss, Results, note
from kshare.engine.signals import Signal
from kshare.errors import KshareError
from kshare.state.acks import AckOutcome
from kshare.state.lease import Lease

_MAX_LOSSES = 1000
"""Of a consumer that never commits. Older ones become results, of which each partition has one."""


class Commits:
    """`changed` is sent when one of them has heard of an outcome."""

    def __init__(self, changed: Signal) -> None:
        self.has_committed = False
        """Somebody did, and may do so again any moment."""
        self.results: Results = {}
        """Since the last commit, by partition: None where all was confirmed, or what went wrong last."""
        self.losses: list[Loss] = []
        """Likewise: leases that were lost with records in the user's hands of which nothing was said."""
        self._changed = changed
        self._waiting = 0
        self._confirmations: list[Confirmation] = []
        """What each of those waits for, where they don't wait for everything."""

    @property
    def is_confirming(self) -> bool:
        return self._waiting > 0

    @contextmanager
    def confirming(self) -> Iterator[None]:
        """While somebody waits for acknowledgements to be confirmed: they leave at once."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    @contextmanager
    def confirmation(self, leases: Iterable[Lease]) -> Iterator[Confirmation]:
        """Of what is decided of these by now, and of what became known before. Left by an error, the next tells it."""
        confirmation = Confirmation(leases)
        confirmation.results, self.results = self.results, {}
        confirmation.losses, self.losses = self.losses, []
        self._confirmations.append(confirmation)
        self.has_committed = True
        try:
            with self.confirming():
                yield confirmation
        except BaseException:
            for partition, error in confirmation.results.items():
                note(self.results, partition, error)
            self.losses += confirmation.losses
            raise
        finally:
            self._confirmations.remove(confirmation)

    def on_outcome(self, outcome: AckOutcome, error: KshareError | None) -> None:
        """For the commits that wait for it, otherwise for the next one."""
        if self._confirmations:
            ranges = [(ack.first, ack.last) for ack in outcome.ranges]
            # Every one of them is to hear of it: no short cut.
            heard = [one.on_outcome(outcome.partition, ranges, error) for one in self._confirmations]
            self._changed.send()
            if any(heard):
                return
        note(self.results, outcome.partition, error)

    def on_loss(self, lease: Lease, error: KshareError) -> None:
        """Records in the user's hands, of which nothing was said yet: for all that wait, or for the next."""
        for losses in [one.losses for one in self._confirmations] or [self.losses]:
            losses.append((lease, error))
        while len(self.losses) > _MAX_LOSSES:
            oldest, error = self.losses.pop(0)
            if oldest.is_loss_reported:
                self.results.setdefault(oldest.partition, error)
            else:
                note(self.results, oldest.partition, error)
