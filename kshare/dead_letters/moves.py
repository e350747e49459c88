"""Where dead letters are that were moved, and what the tracking group knows of them there.

Only copies that were read are known. Contents are compared, too: headers of a mirrored topic name places of the topic
that it mirrors.
"""

from __future__ import annotations

from kshare.dead_letters.dead_letter import DeadLetter
from kshare.dead_letters.duplicates import letter_identity
from kshare.dead_letters.letter_states import LetterStates

_Place = tuple[int, int]


class Moves:
    def __init__(self) -> None:
        self._copies: dict[tuple[bytes, str], _Place] = {}
        """By contents and old place."""

    def note(self, letter: DeadLetter) -> None:
        """To be called for every letter that is read."""
        if letter.moved_from is not None:
            self._copies[letter_identity(letter), letter.moved_from] = letter.partition, letter.offset

    def moved_to(self, letter: DeadLetter) -> str | None:
        """The place of its last copy; None if no copy was read."""
        place = self._last_place(letter)
        return None if place is None else _text(place)

    def _last_place(self, letter: DeadLetter) -> _Place | None:
        contents, first = letter_identity(letter), (letter.partition, letter.offset)
        last = first
        while (copy := self._copies.get((contents, _text(last)))) is not None and copy > last:
            last = copy  # never back: headers can say anything
        return last if last != first else None

    def told(self, letter: DeadLetter, states: LetterStates) -> str | None:
        """What became of a letter that is settled, for users; None if no copy was read."""
        place = self._last_place(letter)
        if place is None:
            return None
        if states.is_settled(place):
            return f"moved to {_text(place)}, and settled there"
        return f"moved to {_text(place)}{', and given up there' if place in states.given_up else ''}"


def _text(place: _Place) -> str:
    return f"{place[0]}:{place[1]}"
