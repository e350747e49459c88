"""Names bytes that somebody gives, such as a page's visitor: guesses what they are, splits them, names every byte.

Decides how much of them is read. Whatever the bytes are, it takes a few seconds and some hundred megabytes at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from kshare.dissect import DissectionLimit
from kshare.errors import ConfigError
from kshare.protocol.decompression_budget import DecompressionBudget
from kshare.wire.guess import Hints, Ranked
from kshare.wire.named_bytes import NamedBytes, named_bytes
from kshare.wire.split_input import InputLimit, InputPart, input_parts

_MIB = 1024 * 1024
_MOST_GUESSES = 10


@dataclass(frozen=True, slots=True)
class NamingLimits:
    """How much is read, and made of it."""

    bytes: int = _MIB
    parts: int = 100
    """Frames, or batches of a log segment."""
    spans: int = 50_000
    """Fields in all parts. A page takes about a kilobyte for each."""
    guessing_spans: int = 300_000
    """Fields that are read to find out what the bytes are."""
    unpacked: int = 16 * _MIB
    """Bytes of decompressed records."""


@dataclass(frozen=True, slots=True)
class InputGuess:
    """One way to read the bytes."""

    title: str
    """ShareFetchRequest v2"""
    kind: str
    """request, response, records, state or message: with `message` and `version` a hint for `name_input`."""
    message: str
    version: int | None
    score: float
    """Higher is better."""
    is_whole: bool
    """Whether the bytes can be read to their end in this way."""


@dataclass(frozen=True, slots=True)
class NamedPart:
    """A frame, or a batch of a log segment, or the whole input."""

    start: int
    """Where it begins in the input: the offsets of its spans are relative to it."""
    guesses: list[InputGuess]
    """The best first, by which it is named."""
    alternatives: list[str]
    """Titles of guesses that are almost as good as the best."""
    named: NamedBytes


@dataclass(frozen=True, slots=True)
class NamedInput:
    """Everything about the bytes that were given."""

    size: int
    """How many bytes were given."""
    parts: list[NamedPart]
    """At least one. They follow each other without gap."""
    doubt: str
    """Why the bytes don't look like Kafka data, in which case the parts are a poor guess; empty if they do."""
    notes: list[str]
    """What was left out because of the limits, in sentences."""


def name_input(data: bytes, hints: Hints | None = None, limits: NamingLimits | None = None) -> NamedInput:
    """Raises ConfigError if there are no bytes, or if no message fits the hints.

    Captures are for `kshare/wire/conversation.py`: ask `kshare.capture.is_capture` first.
    """
    if not data:
        raise ConfigError("no bytes at all")
    hints, limits = hints or Hints(), limits or NamingLimits()
    head = memoryview(data)[: limits.bytes]
    limit = InputLimit(
        DissectionLimit(limits.guessing_spans, DecompressionBudget(limits.unpacked)),
        DissectionLimit(limits.spans, DecompressionBudget(limits.unpacked)),
    )
    found = list(islice(input_parts(head, hints, limit=limit), limits.parts))
    parts = [_named(part) for part in found]
    return NamedInput(len(data), parts, found[0].doubt(hints), _notes(len(data), len(head), parts))


def _named(part: InputPart) -> NamedPart:
    reading = part.reading
    title = f"{reading.message} v{reading.version}" if reading.message else str(part.guess)
    return NamedPart(
        part.start,
        [_guess(guess) for guess in part.guesses[:_MOST_GUESSES]],
        [str(alternative) for alternative in part.alternatives],
        named_bytes(reading, title),
    )


def _guess(ranked: Ranked) -> InputGuess:
    guess = ranked.guess
    return InputGuess(
        str(guess), guess.kind, guess.name, guess.version, round(ranked.score, 2), ranked.is_whole
    )


def _notes(given: int, read: int, parts: list[NamedPart]) -> list[str]:
    notes = []
    if read < given:
        notes.append(f"only the first {read:,} of {given:,} bytes were read")
    end = parts[-1].start + len(parts[-1].named.buffers[0].data)
    if end < read:
        notes.append(f"only the first {len(parts):,} parts are shown, up to byte {end:,}")
    if any(part.named.is_cut for part in parts):
        notes.append("there are more fields than can be shown: the rest of the bytes is not divided")
    return notes
