"""A dead letter as pages show it: what it says, and what the tracking group has done with it."""

from __future__ import annotations

from dataclasses import dataclass

from kshare.dead_letters.dead_letter import DeadLetter
from kshare.dead_letters.letter_states import LetterStates
from kshare.dead_letters.moves import Moves
from kshare.web.content import Content, content, visible
from kshare.web.rendering import query
from kshare.wording import counted, iso_time


@dataclass(frozen=True, slots=True)
class LetterView:
    """A dead letter as it is shown."""

    place: str
    partition: int
    offset: int
    written: str
    origin: str
    origin_link: str
    group: str
    deliveries: int | None
    reason: str
    is_letter: bool
    standing: str
    """What the tracking group has done with it."""
    is_open: bool
    """Whether it may be redriven or dropped, as far as we may read that."""
    key: Content | None
    value: Content | None
    target: str = ""
    problem: str = ""
    """In a dry run: why it can't be redriven."""


def _standing(letter: DeadLetter, states: LetterStates | None, moves: Moves) -> str:
    if states is None:
        return "unknown"
    if states.has_settled(letter):
        return moves.told(letter, states) or "settled"
    if states.has_given_up(letter):
        return "given up"
    times = states.deliveries(letter)
    return f"open, delivered to {counted(times, 'run')}" if times else "open"


def letter_view(
    letter: DeadLetter,
    states: LetterStates | None,
    limit: int,
    target: str = "",
    problem: str = "",
    moves: Moves | None = None,
) -> LetterView:
    origin = letter.origin
    where = {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset} if origin else {}
    return LetterView(
        letter.place,
        letter.partition,
        letter.offset,
        iso_time(letter.timestamp),
        visible(str(origin)) if origin else "",
        "/records/record" + query(dict(where)) if origin else "",
        visible(letter.group or ""),
        letter.deliveries,
        visible(letter.reason or ""),
        letter.is_dead_letter,
        _standing(letter, states, moves or Moves()),
        states is None or not (states.has_settled(letter) or states.has_given_up(letter)),
        None if letter.key is None else content(letter.key, "auto", limit),
        None if letter.value is None else content(letter.value, "auto", limit),
        target,
        visible(problem),
    )
