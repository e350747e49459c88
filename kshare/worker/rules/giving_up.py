"""`dead_letters`: what becomes of records that are given up. Pure."""

from __future__ import annotations

import inspect

from kshare.callbacks import is_async, require_callback
from kshare.errors import ConfigError
from kshare.protocol.topic_names import require_topic_name
from kshare.worker.rules.decision import Decision, RecordOutcome
from kshare.worker.rules.facts import Facts


def check_dead_letters(place: object) -> None:
    """Raises ConfigError."""
    if isinstance(place, str):
        require_topic_name("dead_letters", place)
    elif callable(place):
        require_callback("dead_letters", place, "two arguments, the delivery", "the reason")
        if not (is_async(place) or is_async(inspect.unwrap(place))):
            raise ConfigError("dead_letters must be an async function, not a plain one")
    elif place is not None:
        raise ConfigError(f"dead_letters must be a topic or an async function, not {place!r}")


def check_oversized(choice: object) -> None:
    """Raises ConfigError."""
    if choice not in ("hold", "reject", "truncate"):
        raise ConfigError(f'oversized_dead_letters must be "hold", "reject" or "truncate", not {choice!r}')


def give_up(facts: Facts, reason: str, error: BaseException | None = None) -> Decision:
    """With a dead letter, if the handler has a topic or a function for them."""
    has_dead_letters = facts.options.dead_letters is not None
    outcome = RecordOutcome.DEAD_LETTER if has_dead_letters else RecordOutcome.REJECTED
    return Decision(outcome, counts=facts.call is not None, reason=reason, error=error)
