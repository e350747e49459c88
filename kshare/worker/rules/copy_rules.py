"""Copies: those that couldn't be written, those that aren't due, and those of runs that were moved. Pure."""

from __future__ import annotations

from kshare.worker.rules.decision import RELEASE, Decision, RecordOutcome
from kshare.worker.rules.facts import Facts, MovedRun
from kshare.worker.rules.retry_topics import hold
from kshare.worker.rules.rule import Rule, never

_LOOK_AGAIN_S = 5.0
_AGAIN_S = 1.0
"""When to try to write a copy again that couldn't be written. Then twice as long each time, up to a limit."""
_AGAIN_LONGEST_S = 30.0

COPY_AGAIN = Decision(RecordOutcome.MOVED, is_again=True)


def _pending(facts: Facts) -> Decision:
    assert facts.pending is not None, "the rule applies"
    return facts.pending


UNWRITTEN = Rule(
    "unwritten copy",
    "its copy couldn't be written before",
    "the same again",
    lambda facts: facts.pending is not None,
    _pending,
    of_new_records=never,
)
RUN_OVER = Rule(
    "run over",
    "it is the copy of a moved run that continues, or has ended",
    "accepted without its handler",
    lambda facts: facts.run is MovedRun.GOES_ON,
    lambda facts: Decision(RecordOutcome.SUPERSEDED),
    of_new_records=never,
)
RUN_UNKNOWN = Rule(
    "run unknown",
    "it is such a copy, and the retry topic can't be read",
    f"held for {_LOOK_AGAIN_S:g} s",
    lambda facts: facts.run is MovedRun.UNKNOWN,
    lambda facts: hold(_LOOK_AGAIN_S, counts=False),
    of_new_records=never,
)
RUN_BACK = Rule(
    "copy of a run",
    "it is the copy of a run that was moved, and its handler hasn't failed here",
    "released; at its last delivery moved: an identical copy",
    lambda facts: facts.may_be_over,
    lambda facts: COPY_AGAIN if facts.is_last_delivery else RELEASE,
)
NOT_DUE = Rule(
    "not due",
    "it is a copy that isn't due yet",
    "moved: an identical copy",
    lambda facts: facts.is_waiting_copy,
    lambda facts: COPY_AGAIN,
    of_new_records=never,
)
NOT_DUE_BACK = Rule(
    "not due",
    "it is a copy that isn't due yet",
    "released; at its last delivery moved: an identical copy",
    lambda facts: facts.is_waiting_copy,
    lambda facts: COPY_AGAIN if facts.is_last_delivery else RELEASE,
)


def retry_writing(facts: Facts) -> Decision:
    """Hold a record whose copy couldn't be written."""
    failed = facts.failed
    assert failed is not None, "for a copy that wasn't written"
    delay = min(_AGAIN_LONGEST_S, _AGAIN_S * 2**facts.refusals)
    return hold(delay, counts=False, error=failed.error)._replace(pending=failed)
