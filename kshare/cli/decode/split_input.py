"""Splits input into frames or batches, or takes it as a whole.

Decides where to cut. A piece is read when the one before it has been shown, so a segment takes the memory of a batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kshare.cli.decode.batch_boundaries import batch_cuts, is_certainly_batch
from kshare.cli.decode.guess import Guess, Hints, Ranked, rank
from kshare.cli.decode.read_input import let_go
from kshare.cli.terminal.dissection.internal_records import explain_records
from kshare.cli.terminal.dissection.masking import mask
from kshare.dissect import ByteSpan, Dissection

_IN_BATCH = re.compile(r"records\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class InputPart:
    """Something read by itself. Its offsets count from `start` in the input."""

    guess: Guess
    reading: Dissection
    start: int
    guesses: list[Ranked]


def is_segment(data: memoryview, hints: Hints) -> bool:
    """Whether it is certain, or said, that these are batches one after the other."""
    return hints.kind == "records" or (hints == Hints() and is_certainly_batch(data))


def input_parts(data: memoryview, hints: Hints, field: str | None = None) -> Iterator[InputPart]:
    """All of them; or those alone in which `field` may be, if it says so itself."""
    if is_segment(data, hints):
        yield from _batches(data, field)
        return
    for start, end in _frames(data, hints):
        guesses = rank(data[start:end], hints)
        if guesses[0].guess.kind == "records":
            yield from _batches(data, field)
            return
        yield _piece(data, start, end, guesses, 0)


def _batches(data: memoryview, field: str | None) -> Iterator[InputPart]:
    certain = [Ranked(Guess("records"), 0.0, True)]
    in_batch = _IN_BATCH.match(field or "")
    for number, (start, end) in enumerate(batch_cuts(data)):
        if in_batch is None or int(in_batch[1]) == number:
            yield _piece(data, start, end, certain, number)
        let_go(data, start, end)


def _piece(data: memoryview, start: int, end: int, guesses: list[Ranked], number: int) -> InputPart:
    guess = guesses[0].guess
    # A copy, for what is secret is overwritten in it.
    copy = bytearray(data[start:end])
    reading = guess.read(copy)
    mask(reading, copy)
    if number:
        _renumber(reading, f"records[{number}]")
    explain_records(reading)
    return InputPart(guess, reading, start, guesses)


def _frames(data: memoryview, hints: Hints) -> list[tuple[int, int]]:
    """One after another, if sizes lead from frame to frame. A correlation id can look like a size as well."""
    whole = [(0, len(data))]
    if hints.kind not in (None, "request", "response"):
        return whole
    cuts = []
    start = 0
    while start < len(data):
        size = int.from_bytes(data[start : start + 4], "big", signed=True)
        if size < 4:
            return whole
        cuts.append((start, min(start + 4 + size, len(data))))
        start += 4 + size
    if len(cuts) == 1 or start == len(data):
        return cuts
    is_one = rank(data, hints)[0].is_whole or not rank(data[: cuts[0][1]], hints)[0].is_whole
    return whole if is_one else cuts


def _renumber(reading: Dissection, prefix: str) -> None:
    """A batch that was read by itself is the first of its kind in all paths."""
    first = "records[0]"
    waiting: list[ByteSpan] = [reading.root]
    for span in waiting:
        if span.path.startswith(first):
            span.path = prefix + span.path[len(first) :]
        waiting.extend(span.parts)
        if span.inflated:
            waiting.append(span.inflated.root)
    reading.problems = [
        replace(one, path=prefix + one.path[len(first) :]) if one.path.startswith(first) else one
        for one in reading.problems
    ]
