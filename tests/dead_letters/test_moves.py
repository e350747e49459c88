"""Where moved dead letters are, whatever their headers say: anybody who may write to the topic can write any."""

from __future__ import annotations

from collections.abc import Collection

from kshare.dead_letters.dead_letter import DeadLetter, Origin
from kshare.dead_letters.letter_states import LetterStates
from kshare.dead_letters.moves import Moves


def a_letter(offset: int, moved_from: str = "", moved_first: str = "", value: bytes = b"x") -> DeadLetter:
    said = {"moved.from": moved_from, "moved.first": moved_first}
    context: dict[str, bytes | None] = {name: text.encode() for name, text in said.items() if text}
    return DeadLetter("dlq.orders", 0, offset, 0, None, value, context, (), Origin("orders", 0, 9))


def told(
    *letters: DeadLetter, settled: Collection[int] = (), given_up: Collection[int] = ()
) -> list[str | None]:
    moves = Moves()
    for letter in letters:
        moves.note(letter)
    beyond, lost = (frozenset((0, offset) for offset in offsets) for offsets in (settled, given_up))
    return [moves.told(letter, LetterStates({}, beyond, lost, {})) for letter in letters]


def test_the_last_place_counts() -> None:
    chain = a_letter(0), a_letter(4, "0:0"), a_letter(7, "0:4", "0:0")
    assert told(*chain) == ["moved to 0:7", "moved to 0:7", None]
    assert told(*chain, settled=[7])[0] == "moved to 0:7, and settled there"
    assert told(*chain, given_up=[7])[0] == "moved to 0:7, and given up there"


def test_a_letter_with_other_contents_is_no_copy() -> None:
    """Headers of a mirrored topic name places of the topic that it mirrors."""
    assert told(a_letter(0), a_letter(4, "0:0", value=b"y")) == [None, None]


def test_headers_that_lead_in_a_circle_are_no_moves() -> None:
    circle = a_letter(0, "0:4", "0:9"), a_letter(4, "0:0", "0:9"), a_letter(5, "0:5", "0:9")
    assert told(*circle) == ["moved to 0:4", None, None]
