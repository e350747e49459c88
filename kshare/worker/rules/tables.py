"""The rules in their order. The first that applies to a record decides. Pure.

`docs/worker-rules.md` is generated from these tables. Tests go through all situations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshare.errors import KshareError
from kshare.worker.rules import age, breaker, copy_rules, deliveries, record_filter, retry, window
from kshare.worker.rules.choices import DELAYED, REJECTED, chose
from kshare.worker.rules.decision import ACCEPT, KEEP, LOSE, RELEASE, Decision, RecordOutcome, RunResult
from kshare.worker.rules.facts import Facts
from kshare.worker.rules.retry_topics import hold, wait
from kshare.worker.rules.rule import Rule, first_decision

if TYPE_CHECKING:
    from kshare.worker.handlers.options import HandlerOptions

BEFORE_CALL = (
    copy_rules.UNWRITTEN,
    copy_rules.RUN_OVER,
    copy_rules.RUN_UNKNOWN,
    copy_rules.NOT_DUE,
    age.TOO_OLD,
    retry.SPENT,
    deliveries.OFTEN_DELIVERED,
    deliveries.LAST_DELIVERY,
    record_filter.FILTERED,
)
"""If none applies, the handler is called."""

_DONE = ACCEPT._replace(counts=True, rule="done")
"""Made once: this is what becomes of most records."""
_ARCHIVED = "archived by the broker without a copy, because that couldn't be written before the worker ended"


def _is_done(facts: Facts) -> bool:
    if facts.call is RunResult.RETURNED:
        return when_returned(facts.chosen) is not None
    return facts.call is RunResult.FAILED and chose(facts, RecordOutcome.ACCEPTED)


def when_returned(chosen: Decision | None) -> Decision | None:
    """What becomes of a record whose handler has returned, if no other facts matter, as for most records. Otherwise
    None: ask `after_call`."""
    return _DONE if chosen is None or chosen.outcome is RecordOutcome.ACCEPTED else None


def _was_accepted(facts: Facts) -> bool:
    if facts.call is not RunResult.CANCELLED or not chose(facts, RecordOutcome.ACCEPTED):
        return False
    return not facts.is_in_hand or (facts.is_moved and not facts.has_unwritten)


def _is_lost(facts: Facts) -> bool:
    if facts.call is RunResult.FAILED:
        return not facts.is_in_hand
    return facts.call is RunResult.CANCELLED and facts.is_lock_lost


HANDING_BACK = (
    Rule(
        "settled",
        "it was settled before, or its lock was lost",
        "nothing",
        lambda facts: not facts.is_in_hand,
        lambda facts: KEEP,
    ),
    copy_rules.UNWRITTEN,
    copy_rules.NOT_DUE_BACK,
    copy_rules.RUN_BACK,
    Rule(
        "remembered",
        "there are retry topics, and it has had attempts here or waits for one, or this was its last delivery",
        "moved, for the rest of its delay; not counted as an attempt",
        lambda facts: (
            facts.tiers is not None and (facts.is_last_delivery or facts.due_in_s > 0 or facts.has_past)
        ),
        lambda facts: Decision(RecordOutcome.MOVED, facts.due_in_s),
    ),
    deliveries.LAST_DELIVERY_BACK,
    Rule("released", "otherwise", "released", lambda facts: True, lambda facts: RELEASE),
)
"""For records whose handler was cancelled or has released them, and for all that the worker still has when it ends."""


def _decide(rules: tuple[Rule, ...], facts: Facts) -> Decision:
    decision = first_decision(rules, facts)
    assert decision is not None, "the last rule always applies"
    return decision


def hand_back(facts: Facts) -> Decision:
    return _decide(HANDING_BACK, facts)


AFTER_CALL = (
    Rule(
        "done",
        "its handler has returned, or has accepted it before it raised",
        "accepted, once its results are written",
        _is_done,
        lambda facts: _DONE,
    ),
    Rule(
        "postponed",
        "its handler has raised InProgress: another member is processing a copy of it",
        "held or moved, for the delay that the exception names; not counted as an attempt",
        lambda facts: facts.call is RunResult.POSTPONED,
        lambda facts: wait(facts, facts.postponed_s, counts=False),
    ),
    Rule(
        "lock lost",
        "its lock was lost while its handler ran, which has raised or was cancelled",
        "lost",
        _is_lost,
        lambda facts: LOSE._replace(error=facts.error or KshareError("its handler was cancelled")),
    ),
    Rule(
        "accepted before",
        "its handler had accepted it before it was cancelled",
        "accepted",
        _was_accepted,
        lambda facts: ACCEPT,
    ),
    Rule(
        "settled",
        "its handler was cancelled after the record was settled",
        "nothing",
        lambda facts: facts.call is RunResult.CANCELLED and not facts.is_in_hand,
        lambda facts: KEEP,
    ),
    REJECTED,
    DELAYED,
    Rule(
        "released",
        "its handler has released it",
        "handed back",
        lambda facts: chose(facts, RecordOutcome.RELEASED),
        hand_back,
    ),
    retry.NOT_CONVERTED,
    breaker.NOT_AN_ATTEMPT,
    retry.LAST_ATTEMPT,
    retry.FAILED,
    Rule(
        "not to blame",
        "its handler was cancelled because it took too long, and the cause may be elsewhere",
        "held, and retried at once; not counted as an attempt",
        lambda facts: facts.keeps and facts.chosen is None,
        lambda facts: wait(facts, 0.0, counts=False),
    ),
    Rule("cancelled", "its handler was cancelled", "handed back", lambda facts: True, hand_back),
)

MAKING_WAY = (
    Rule(
        "lock lost",
        "its lock was lost while it was held",
        "lost",
        lambda facts: not facts.is_in_hand,
        lambda facts: LOSE._replace(error=KshareError("while it was held for its next attempt")),
    ),
    Rule(
        "unwritten copy",
        "its copy couldn't be written, and it has deliveries left",
        "released",
        lambda facts: facts.pending is not None and facts.delivery_count < facts.limits.last_delivery,
        lambda facts: RELEASE,
    ),
    Rule(
        "only the copy is left",
        "its copy couldn't be written",
        "held on",
        lambda facts: facts.pending is not None,
        lambda facts: KEEP._replace(pending=facts.pending),
    ),
    copy_rules.RUN_BACK,
    window.MOVED_AWAY,
    window.EARLY,
)
"""For held records that pin too much of the in-flight window, or are too many."""


def _is_too_large(facts: Facts) -> bool:
    failed = facts.failed
    assert failed is not None, "for a copy that wasn't written"
    is_move = failed.outcome is RecordOutcome.MOVED and not failed.is_again
    return facts.is_too_large and is_move and not facts.is_moved


def _without_copy(facts: Facts) -> Decision:
    """Its retry topic doesn't take it, so it has none from now on."""
    if facts.is_ending:
        return hand_back(facts)
    failed = facts.failed
    assert failed is not None, "for a copy that wasn't written"
    # Deliveries that ended without a result aren't attempts of its handler.
    longest = retry.LONGEST_DELAY_S if facts.can_renew else facts.limits.holdable_s
    return hold(min(failed.delay, longest), counts=failed.counts and not failed.apart, error=failed.error)


NOT_WRITTEN = (
    Rule(
        "abandoned",
        "the worker was told to stop again",
        "nothing: its consumer releases it",
        lambda facts: facts.is_abandoned,
        lambda facts: KEEP,
    ),
    Rule(
        "too large",
        "it is too large for its retry topic",
        "held for its delay instead; when the worker ends, handed back",
        _is_too_large,
        _without_copy,
    ),
    Rule(
        "archived",
        "the worker ends, and this was its last delivery",
        "lost",
        lambda facts: facts.is_ending and not facts.is_moved and facts.is_last_delivery,
        lambda facts: Decision(
            RecordOutcome.LOST,
            reason=_ARCHIVED,
            error=KshareError(
                "its copy couldn't be written before the worker ended, and this was its last delivery"
            ),
        ),
    ),
    Rule(
        "released",
        "the worker ends, or a written copy already stands for it",
        "released",
        lambda facts: facts.is_ending or facts.is_moved,
        lambda facts: RELEASE,
    ),
    Rule(
        "later",
        "otherwise",
        "held; the write is retried, after twice as long each time",
        lambda facts: True,
        copy_rules.retry_writing,
    ),
)
"""For records whose copy wasn't confirmed."""


def before_call(facts: Facts, rules: tuple[Rule, ...] = BEFORE_CALL) -> Decision | None:
    """None if the handler is to be called. `rules`: for new records, those that may stop them."""
    return first_decision(rules, facts)


def after_call(facts: Facts) -> Decision:
    return _decide(AFTER_CALL, facts)


def make_way(facts: Facts) -> Decision:
    return _decide(MAKING_WAY, facts)


def not_written(facts: Facts) -> Decision:
    return _decide(NOT_WRITTEN, facts)


def rules_of_new_records(options: HandlerOptions) -> tuple[Rule, ...]:
    """Those of `BEFORE_CALL` that may stop a record that comes for the first time."""
    return tuple(rule for rule in BEFORE_CALL if rule.of_new_records(options))


def are_called_directly(options: HandlerOptions) -> bool:
    """Whether new records go to the handler, and are accepted when it returns, without asking any rule: the fast path.

    It knows a record that is being processed only by its place, which isn't enough to move it away.
    """
    return not (rules_of_new_records(options) or options.move_runs or options.order != "none")


def must_be_copied(facts: Facts) -> bool:
    """Whether handing it back means to write a copy, whatever the limits of the group are then."""
    if facts.pending is not None:
        return True
    has_past = facts.due_in_s > 0 or facts.has_past
    is_copy = facts.is_waiting_copy or facts.may_be_over
    return not is_copy and facts.tiers is not None and has_past
