"""Recognises copies of one dead letter, so that a run redrives or drops it once.

A moved dead letter is written to the end of its topic, and then its old place is settled. If the outcome of the write
is unknown, or the run is killed in between, the old place stays open and the copy is one more dead letter. It names the
first place, and otherwise has the same contents.

Only what one run reads is compared, and only dead letters that say where their record was. Others may be equal without
being copies, and anybody who may write to the topic could make them look so.
"""

from __future__ import annotations

from collections import defaultdict
from hashlib import blake2b

from kshare.client.record import ShareRecord
from kshare.dead_letters.dead_letter import MOVED_HEADERS, DeadLetter

HeldLetter = tuple[ShareRecord, DeadLetter]


class Duplicates:
    def __init__(self) -> None:
        self._dealt_with: set[bytes] = set()
        self._held: dict[bytes, dict[str, HeldLetter]] = defaultdict(dict)

    def add(self, letter: DeadLetter) -> None:
        """This run redrives or drops it: its copies are duplicates from now on."""
        if _is_comparable(letter):
            self._dealt_with.add(letter_identity(letter))

    def discard(self, letter: DeadLetter) -> None:
        """The run couldn't deal with it after all."""
        self._dealt_with.discard(letter_identity(letter))

    def includes(self, letter: DeadLetter) -> bool:
        """Whether this letter, or a copy of it, was added."""
        return _is_comparable(letter) and letter_identity(letter) in self._dealt_with

    def hold(self, record: ShareRecord, letter: DeadLetter) -> None:
        """It wasn't chosen, but may turn out to be a duplicate later in the run."""
        if _is_comparable(letter):
            self._held[letter_identity(letter)][letter.place] = record, letter

    def take_held(self, letter: DeadLetter) -> list[HeldLetter]:
        """The copies of this letter that were held."""
        return list(self._held.pop(letter_identity(letter), {}).values()) if _is_comparable(letter) else []


def _is_comparable(letter: DeadLetter) -> bool:
    """Letters may differ in headers that weren't read."""
    return letter.origin is not None and not letter.more_headers


def letter_identity(letter: DeadLetter) -> bytes:
    """The same for a dead letter and its copies: a digest, so that a run doesn't keep all their contents."""
    if letter.identity:
        return letter.identity
    context = [(name, value) for name, value in letter.context.items() if name not in MOVED_HEADERS]
    digest = blake2b(letter.first_place.encode(), digest_size=16)
    for content in (letter.key, letter.value):
        digest.update(b"-" if content is None else b"%d:" % len(content))
        digest.update(content or b"")
    digest.update(repr((context, letter.own_headers)).encode())
    return digest.digest()
