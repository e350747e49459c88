"""Splits input into frames or batches, or takes it as a whole.

Each part is decoded after the one before it was shown, so a segment needs the memory of only one batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kshare.dissect import ByteSpan, Dissection, DissectionLimit
from kshare.wire.batch_boundaries import batch_cuts, is_certainly_batch
from kshare.wire.guess import NO_LIKENESS, Guess, Hints, Ranked, rank
from kshare.wire.internal_records import explain_records
from kshare.wire.mapped_memory import let_go
from kshare.wire.masking import hide_token, mask

_CLOSE = 1.0
"""Guesses whose scores are this close to the best one are alternatives."""
_HANDSHAKE = "SaslHandshakeRequest"
_IN_BATCH = re.compile(r"records\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class InputLimit:
    """Limits of all parts together. Guessing mustn't use up what naming needs."""

    guessing: DissectionLimit | None = None
    naming: DissectionLimit | None = None

    @property
    def is_reached(self) -> bool:
        return any(limit is not None and limit.spans <= 0 for limit in (self.guessing, self.naming))


NO_LIMIT = InputLimit()


@dataclass(frozen=True, slots=True)
class InputPart:
    """A part of the input, decoded separately. Its offsets are relative to `start`."""

    guess: Guess
    reading: Dissection
    start: int
    guesses: list[Ranked]

    @property
    def alternatives(self) -> list[Guess]:
        """What it could also be."""
        best = self.guesses[0].score
        return [guess.guess for guess in self.guesses[1:] if guess.is_whole and best - guess.score < _CLOSE]

    def doubt(self, hints: Hints) -> str:
        """Why this doesn't look like Kafka data; empty if it does, or if the user says what it is."""
        best = self.guesses[0]
        if best.score > NO_LIKENESS or best.is_whole or hints != Hints():
            return ""
        return f"this doesn't look like Kafka data; best guess: {self.guess}, with {self.reading.error}"


def is_segment(data: memoryview, hints: Hints) -> bool:
    """Whether this is a sequence of batches, according to the options or to a correct checksum."""
    return hints.kind == "records" or (hints == Hints() and is_certainly_batch(data))


def input_parts(
    data: memoryview, hints: Hints, field: str | None = None, limit: InputLimit = NO_LIMIT
) -> Iterator[InputPart]:
    """Yield all parts, or as many as the limit allows; if the path `field` names a batch, only that one."""
    if is_segment(data, hints):
        yield from _batches(data, field, limit)
        return
    takes_tokens = False
    for start, end in _frames(data, hints, limit):
        if start and limit.is_reached:
            return
        guesses = rank(data[start:end], hints, limit.guessing)
        if guesses[0].guess.kind == "records" and not takes_tokens:
            yield from _batches(data, field, limit)
            return
        if takes_tokens and not _is_no_token(guesses[0]):
            yield _token(data, start, end, limit)
            continue
        part = _piece(data, start, end, guesses, 0, limit)
        if part.guess.kind == "request":
            takes_tokens = part.reading.message == _HANDSHAKE and part.reading.version == 0
        yield part


def _batches(data: memoryview, field: str | None, limit: InputLimit) -> Iterator[InputPart]:
    certain = [Ranked(Guess("records"), 0.0, True)]
    in_batch = _IN_BATCH.match(field or "")
    for number, (start, end) in enumerate(batch_cuts(data)):
        if number and limit.is_reached:
            return
        if in_batch is None or int(in_batch[1]) == number:
            yield _piece(data, start, end, certain, number, limit)
        let_go(data, start, end)


def _piece(
    data: memoryview, start: int, end: int, guesses: list[Ranked], number: int, limit: InputLimit
) -> InputPart:
    guess = guesses[0].guess
    # A copy, because credentials are overwritten in it.
    copy = bytearray(data[start:end])
    naming = limit.naming or DissectionLimit.usual()
    reading = guess.read(copy, limit=naming)
    mask(reading, copy)
    if number:
        _renumber(reading, f"records[{number}]")
    explain_records(reading, naming)
    return InputPart(guess, reading, start, guesses)


def _is_no_token(best: Ranked) -> bool:
    """A token may look like many a response by chance, but hardly like a request."""
    return best.is_whole and (best.guess.kind == "request" or best.guess.name == "SaslHandshakeResponse")


def _token(data: memoryview, start: int, end: int, limit: InputLimit) -> InputPart:
    copy, guess = bytearray(data[start:end]), Guess("request")
    reading = guess.read(copy, limit=limit.naming or DissectionLimit.usual())
    hide_token(reading, copy)
    return InputPart(guess, reading, start, [Ranked(guess, NO_LIKENESS, False)])


def _frames(data: memoryview, hints: Hints, limit: InputLimit) -> list[tuple[int, int]]:
    """Start and end of each frame, if sizes lead from frame to frame. A correlation id may look like a size."""
    single = [(0, len(data))]
    if hints.kind not in (None, "request", "response"):
        return single
    cuts = []
    start = 0
    while start < len(data):
        size = int.from_bytes(data[start : start + 4], "big", signed=True)
        if size < 4:
            return single
        cuts.append((start, min(start + 4 + size, len(data))))
        start += 4 + size
    if len(cuts) == 1 or start == len(data):
        return cuts
    is_one = (
        rank(data, hints, limit.guessing)[0].is_whole
        or not rank(data[: cuts[0][1]], hints, limit.guessing)[0].is_whole
    )
    return single if is_one else cuts


def _renumber(reading: Dissection, prefix: str) -> None:
    """Correct the paths of a batch: because it was decoded separately, they begin with records[0]."""
    first = "records[0]"
    waiting: list[ByteSpan] = [reading.root]
    for span in waiting:
        if span.path.startswith(first):
            span.path = prefix + span.path[len(first) :]
        waiting.extend(span.parts)
        if span.inflated:
            waiting.append(span.inflated.root)
    reading.problems = [
        replace(problem, path=prefix + problem.path[len(first) :])
        if problem.path.startswith(first)
        else problem
        for problem in reading.problems
    ]
