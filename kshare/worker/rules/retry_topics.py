"""Retry topics: their names and delays, and which records wait in them for their next attempt. Pure.

All records of a retry topic wait about equally long, so the first one is due first, and the group's in-flight window in
that topic pins nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from kshare.errors import ConfigError
from kshare.options.mistakes import Mistakes
from kshare.protocol.topic_names import is_topic_name
from kshare.worker.rules.decision import Decision, RecordOutcome
from kshare.worker.rules.facts import Facts

_DEFAULT_NAME = re.compile(r"(.+)\.retry\.[0-9]+(?:ms|s|m|h)")
_SHORTEST_HOLD_S = 0.01
"""The shortest delay that isn't counted as an attempt. Without it, a handler that always asks for no delay would be
called without end, and nothing else would run."""
_UNITS = ((3600, "h"), (60, "m"), (1, "s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTopics:
    """Which retry topics a handler has."""

    tiers: tuple[float, ...] = (60.0, 600.0, 3600.0)
    """Their delays in seconds. A record goes to the topic with the shortest delay that isn't shorter than its own, or
    to the last one. It is retried after its own delay in any case."""
    name: str = "{topic}.retry.{delay}"
    """The names of the topics. The delay is written as in 10s, 5m or 1h."""

    def __post_init__(self) -> None:
        mistakes = Mistakes()
        if not _are_tiers(self.tiers):
            mistakes.add(
                f"tiers must be ascending numbers of seconds, from 0.001 to 86,400, not {self.tiers!r}"
            )
        with mistakes:
            self._check_name()
        mistakes.raise_all()

    def _check_name(self) -> None:
        if not isinstance(self.name, str):
            raise ConfigError(f"name must be a string, not {self.name!r:.80}")
        try:
            name = self.name.format(topic="<1>", delay="<2>")
        except (KeyError, IndexError, ValueError, AttributeError):
            name = ""
        if "<1>" not in name or "<2>" not in name:
            raise ConfigError(
                f'name must contain {{topic}} and {{delay}}, as in "{{topic}}.retry.{{delay}}", not {self.name!r}'
            )
        if not is_topic_name(self.name.format(topic="t", delay="1m")):
            raise ConfigError(
                f"name {self.name!r:.300} makes no names of topics: use letters, digits, '.', '_' and '-'"
            )

    def tier_for(self, delay: float) -> float:
        """The tier of a delay; the longest one for delays beyond it."""
        return next((tier for tier in self.tiers if delay <= tier), self.tiers[-1])

    def topic(self, topic: str, tier: float) -> str:
        return self.name.format(topic=topic, delay=delay_name(tier))


def check_retry_topics(retry_topics: object) -> None:
    """Raises ConfigError."""
    if not isinstance(retry_topics, RetryTopics | bool):
        example = "RetryTopics(tiers=(60, 600))"
        raise ConfigError(
            f"retry_topics must be True, False or a RetryTopics, such as {example}, not {retry_topics!r}"
        )


def default_retry_topics(names: Iterable[str]) -> set[str]:
    """Those of the topics that have the default name of a retry topic of another one, whoever has written them."""
    known = set(names)
    return {name for name in known if (found := _DEFAULT_NAME.fullmatch(name)) and found[1] in known}


def _are_tiers(tiers: object) -> bool:
    return (
        isinstance(tiers, tuple)
        and bool(tiers)
        and all(type(tier) in (int, float) and 0.001 <= tier <= 86_400 for tier in tiers)
        and all(tier < following for tier, following in pairwise(tiers))
    )


def delay_name(seconds: float) -> str:
    """10s, 5m, 1h: for names of topics."""
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{round(seconds * 1000)}ms"


# --- what rows of several tables decide


def wait(facts: Facts, delay: float, *, counts: bool, error: BaseException | None = None) -> Decision:
    """Held here, or moved to a retry topic if there is one and the delay is too long to hold the record."""
    is_too_long = delay > facts.options.hold_up_to or (
        not facts.can_renew and delay >= facts.limits.holdable_s
    )
    if facts.tiers is not None and (is_too_long or facts.is_moved):
        return Decision(RecordOutcome.MOVED, delay, counts, error=error)
    return hold(delay, counts=counts, error=error)


def hold(delay: float, *, counts: bool, error: BaseException | None = None) -> Decision:
    return Decision(
        RecordOutcome.HELD, delay if counts else max(delay, _SHORTEST_HOLD_S), counts, error=error
    )
