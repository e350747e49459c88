"""What rules may know about a record. Pure."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING

from kshare.worker.rules.decision import Decision, RunResult

if TYPE_CHECKING:
    from kshare.worker.handlers.options import HandlerOptions
    from kshare.worker.rules.limits import ShareLimits
    from kshare.worker.rules.retry_topics import RetryTopics


class MovedRun(Enum):
    """What a copy is about that was written while a handler ran, because the record was in the way."""

    NONE = auto()
    """It is about no run."""
    UNKNOWN = auto()
    """Whether the run is over can't be read now."""
    GOES_ON = auto()
    """Or it is over: the copy is out of date."""
    ENDED = auto()
    """Its worker has died: the record is to be processed again."""


class Facts:
    """What isn't set is as it is for a record that comes for the first time. Most records are like that, so this is
    cheaper than telling everything about each."""

    def __init__(self, options: HandlerOptions, limits: ShareLimits) -> None:
        self.options = options
        self.limits = limits

    # --- the record

    delivery_count = 1
    """How often the broker has delivered it, or its copy."""
    attempt = 1
    """Which attempt this is, with those that ended without a result."""
    unfinished = 0
    """How many of these."""
    timestamp = 0
    """In milliseconds since 1970."""
    now_ms = 0.0
    """The time of day."""
    copy_due_ms: float | None = None
    """If it is a copy in a retry topic: when it may be tried again."""
    copy_attempts = 0
    """And how many attempts the record had had when it was written."""
    apart = 0
    """And how many times in a row it was moved by then because its deliveries ended without a result."""
    run = MovedRun.NONE
    is_of_run = False
    """It is the copy of a run that was moved."""
    tiers: RetryTopics | None = None
    """The retry topics for copies of it, if there are any."""
    pending: Decision | None = None
    """What couldn't be done before: its copy couldn't be written."""
    refusals = 0
    """How often it couldn't be done."""
    is_moved = False
    """It was moved out of the way while its handler runs: it is accepted, and copies stand for it."""
    is_in_hand = True
    """It is up to this worker what becomes of it: its lock is held and it isn't settled, or copies stand for it."""
    is_lock_lost = False

    @property
    def counted_attempt(self) -> int:
        """Which attempt this is for the retry policy."""
        return self.attempt - self.unfinished

    @property
    def age_s(self) -> float:
        """0 for a record without a timestamp."""
        return max(0.0, (self.now_ms - self.timestamp) / 1000) if self.timestamp >= 0 else 0.0

    @property
    def is_waiting_copy(self) -> bool:
        """Whether it is a copy that isn't due yet."""
        return self.copy_due_ms is not None and self.copy_due_ms > self.now_ms + _SOON_MS

    @property
    def is_last_delivery(self) -> bool:
        """Whether the broker archives it unless it is settled."""
        return self.delivery_count >= self.limits.deliveries

    @property
    def has_past(self) -> bool:
        """Whether only a copy remembers its attempts or its run."""
        return self.is_moved or self.attempt > 1 + self.copy_attempts

    due_in_s = 0.0
    """When it is handed back: the delay that is left until its next attempt."""

    # --- writing its copy

    failed: Decision | None = None
    """What couldn't be done, because a copy wasn't confirmed."""
    is_too_large = False
    """The topic doesn't take it."""

    @property
    def may_be_over(self) -> bool:
        """Whether it stands for a run that may go on, or be over: only later copies in the retry topic say so."""
        return self.is_of_run and not self.has_past

    # --- the call of its handler

    call: RunResult | None = None
    """How it has ended; None before it."""
    chosen: Decision | None = None
    """What the handler has decided itself."""
    error: Exception | None = None
    """What it has raised."""
    error_name = ""
    """The class of that."""
    is_payload_error = False
    """The value couldn't be converted, so it wasn't called."""
    postponed_s = 0.0
    """Another member is processing a copy of the record: when to look again."""
    is_attempt = True
    """Whether a failure counts as an attempt."""
    next_delay: float | None = None
    """After a failure: the delay of the retry policy, None if it gives up."""
    has_unwritten = False
    """It has published results that aren't written."""
    keeps = False
    """It is cancelled, and tried again here."""

    # --- the worker

    can_renew = True
    """Whether locks can be renewed."""
    is_ending = False
    """Nothing can be held any more."""
    is_abandoned = False
    """The consumer releases all that it has: what that costs is counted already."""
    luck = 0.0
    """A random number from 0 to 1."""
    wants: Callable[[], bool] | None = None
    """Whether `only` selects it; None without `only`. Asked last, because it calls a function of the user's, which may
    raise."""


_SOON_MS = 50
"""A copy that is due so soon is due."""
