"""Guesses what bytes are: tries everything that fits the options, and ranks it by how well it decodes.

A guess scores well if decoding ends where the bytes end, and if the values are plausible. `kshare.dissect` does the
decoding, and fails early if a guess is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kshare.dissect import (
    ByteSpan,
    Dissection,
    DissectionLimit,
    dissect_message,
    dissect_records,
    dissect_request,
    dissect_response,
    dissect_versioned,
)
from kshare.dissect.fields import index
from kshare.dissect.table import Message, message
from kshare.errors import ConfigError
from kshare.protocol.decompression_budget import DecompressionBudget
from kshare.protocol.frames import MAX_FRAME
from kshare.wire.api_names import api_key, nearest
from kshare.wire.batch_boundaries import begins_with_batch, size_of_batch

_PRIOR = {"request": 2.0, "records": 8.0, "state": 1.5, "response": 1.0, "message": 1.0}
_VERSIONED = ("coordinator-key", "coordinator-value", "data")
_LONG_THROTTLE = 3_600_000
_DOUBT = 3.0
_SURPLUS = 3.0
_BREAKS = -8.0
_BREAKS_AT_ONCE = 3.0
_SOMETHING = 8
"""If fewer bytes of the body are decoded before a break, the guess matches a header only."""
_MOST_SPANS = 50_000
"""As many fields decide about a guess, if there is a limit."""
NO_LIKENESS = 0.0
"""A guess that breaks, and whose score isn't above this, is not a match."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What the caller knows. `kind` is a role (`request` ...) or a message name, if it is a body alone."""

    kind: str | None = None
    api: int | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Guess:
    """One way to read bytes."""

    kind: str
    name: str = ""
    version: int | None = None
    is_sized: bool = True

    def read(
        self,
        data: bytes | bytearray | memoryview,
        *,
        records: bool = True,
        limit: DissectionLimit | None = None,
    ) -> Dissection:
        match self.kind:
            case "request":
                return dissect_request(data, is_sized=self.is_sized, records=records, limit=limit)
            case "records":
                return dissect_records(data, limit=limit)
            case "state":
                return dissect_versioned(self.name, data, limit=limit)
            case "message":
                return dissect_message(self.name, self.version or 0, data, records=records, limit=limit)
        key = message(self.name).api_key
        assert key is not None
        return dissect_response(
            data, key, self.version or 0, is_sized=self.is_sized, records=records, limit=limit
        )

    def __str__(self) -> str:
        version = "" if self.version is None else f" v{self.version}"
        return f"{self.name}{version}" if self.name else self.kind


@dataclass(frozen=True, slots=True)
class Ranked:
    guess: Guess
    score: float
    is_whole: bool  # read to the end


def rank(data: memoryview, hints: Hints, limit: DissectionLimit | None = None) -> list[Ranked]:
    """Guesses, best first. Raises ConfigError if there are none. At the limit, no more is tried."""
    ranked: list[Ranked] = []
    unpacked = limit.unpacked if limit else DissectionLimit.usual().unpacked
    announced = 4 + int.from_bytes(data[:4], "big")
    is_cut, is_exact = announced > len(data), announced == len(data)
    for guess in _candidates(data, hints):
        if ranked and limit and limit.spans <= 0:
            break
        # Decoding records takes time, and only matters if the frame is cut off inside them.
        whole = data[: size_of_batch(data)] if guess.kind == "records" else data
        with _share_of(limit, unpacked) as share:
            reading = guess.read(whole, records=is_cut, limit=share)
        is_accepted = not _breaks(reading) or (guess.kind == "request" and is_exact and reading.has_surplus)
        score = _score(reading, len(data), is_accepted) + _PRIOR[guess.kind] + (guess.version or 0) * 0.001
        score += 0.1 * guess.name.startswith("Share") - 0.5 * (not guess.is_sized)
        ranked.append(Ranked(_named(guess, reading), score, is_accepted))
    if not ranked:
        raise ConfigError("no known message fits this kind, API and version")
    return sorted(ranked, key=lambda guess: -guess.score)


@contextmanager
def _share_of(limit: DissectionLimit | None, unpacked: DecompressionBudget) -> Iterator[DissectionLimit]:
    """The part of a limit that one guess may use. Bytes of which a wrong guess makes many fields mustn't use it up."""
    if limit is None:
        yield DissectionLimit(DissectionLimit.usual().spans, unpacked)
        return
    share = DissectionLimit(min(limit.spans, _MOST_SPANS), unpacked)
    before = share.spans
    yield share
    limit.spans -= before - share.spans


def hints_of(kind: str | None, api: str | None, version: int | None) -> Hints:
    """Hints as users give them. Raises ConfigError if a name doesn't exist."""
    return Hints(check_kind(kind) if kind else None, api_key(api) if api else None, version)


def check_kind(kind: str) -> str:
    if kind in ("request", "response", "records", "state") or kind in index.MODULES:
        return kind
    raise ConfigError(f"no message is called {kind!r}{nearest(kind, [*index.MODULES], '')}")


def _named(guess: Guess, reading: Dissection) -> Guess:
    """A request's header contains its API and version: use these."""
    if guess.kind != "request" or not reading.message:
        return guess
    return Guess("request", reading.message, reading.version, guess.is_sized)


def _candidates(data: memoryview, hints: Hints) -> Iterator[Guess]:
    kind = hints.kind
    if kind in index.MODULES:
        yield from _bodies(message(kind), hints)
        return
    sizes = _sizes(data)
    if kind in (None, "request"):
        yield from (Guess("request", is_sized=is_sized) for is_sized in sizes if _fits(data, hints, is_sized))
    has_api = hints.api is not None or hints.version is not None
    if kind == "records" or (kind is None and not has_api and begins_with_batch(data)):
        yield Guess("records")
    if kind == "state" or (kind is None and not has_api):
        yield from (Guess("state", name) for name in index.MODULES if name.endswith(("Key", "Value")))
    if kind in (None, "response"):
        yield from _responses(sizes, hints)


def _bodies(table: Message, hints: Hints) -> Iterator[Guess]:
    if table.kind in _VERSIONED and hints.version is None:
        yield Guess("state", table.name)
    else:
        yield from (Guess("message", table.name, version) for version in _versions(table, hints))


def _responses(sizes: list[bool], hints: Hints) -> Iterator[Guess]:
    for key, name in index.RESPONSES.items():
        if hints.api in (None, key):
            for version in _versions(message(name), hints):
                yield from (Guess("response", name, version, is_sized) for is_sized in sizes)


def _versions(table: Message, hints: Hints) -> list[int]:
    first, last = table.versions
    if hints.version is None:
        return list(range(first, last + 1))
    if table.name == hints.kind and not table.has(hints.version):
        raise ConfigError(f"{table.name} has no version {hints.version}: {first} to {last} are known")
    return [hints.version] if table.has(hints.version) else []


def _sizes(data: memoryview) -> list[bool]:
    """Whether the frame size comes first: certain if it is correct, open if it is possible."""
    announced = int.from_bytes(data[:4], "big", signed=True)
    if announced == len(data) - 4:
        return [True]
    return [True, False] if 0 <= announced <= MAX_FRAME else [False]


def _fits(data: memoryview, hints: Hints, is_sized: bool) -> bool:
    start = 4 if is_sized else 0
    key, version = (int.from_bytes(data[at : at + 2], "big", signed=True) for at in (start, start + 2))
    if hints.kind is None and key not in index.REQUESTS:
        return False
    return hints.api in (None, key) and hints.version in (None, version)


def _score(reading: Dissection, size: int, is_accepted: bool) -> float:
    """`is_accepted` means by brokers: they also accept surplus bytes at the end of a request's frame."""
    leaves = reading.spans
    lost = 0 if reading.is_cut else sum(span.length for span in leaves if span.kind == "unread")
    penalty = len(reading.problems) + _DOUBT * sum(map(_penalty, leaves))
    score = 10.0 * (1 - lost / size) - penalty
    if is_accepted:
        return score - (_SURPLUS if reading.has_surplus else 0.0)
    has_something = reading.body is not None and reading.body.length >= _SOMETHING
    return score + _BREAKS - (0.0 if has_something else _BREAKS_AT_ONCE)


def _breaks(reading: Dissection) -> bool:
    """Whether decoding breaks anywhere. Inside batches it continues after a break, which doesn't help a guess."""
    if reading.is_cut:  # it was read as far as the limit allowed
        return False
    return reading.error is not None or any(span.kind == "unread" for span in reading.spans)


def _penalty(span: ByteSpan) -> float:
    """Penalty for a value that can be decoded, but that no broker or client would write."""
    value = span.value
    match span.kind:
        case "int16" if span.name.endswith("rrorCode"):
            return 0.0 if span.note else 1.0
        case "bool":
            return 0.0 if span.raw[0] < 2 else 1.0
        case "string" if isinstance(value, str):
            return 0.0 if value.isprintable() or "\n" in value else 1.0
        case "int32" if span.name == "throttleTimeMs" and isinstance(value, int):
            return 0.0 if 0 <= value <= _LONG_THROTTLE else 1.0
    return 1.0 if span.kind == "unknown tagged field" else 0.0
