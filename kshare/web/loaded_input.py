"""What users paste or load to look at: bytes of messages, and captures. Decides how much of it is read.

What is kept of bytes with passwords has these masked.
"""

from __future__ import annotations

import base64
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

from kshare.capture import is_capture
from kshare.errors import ConfigError
from kshare.wire.conversation import (
    CaptureLimits,
    Conversation,
    ListedExchange,
    ListedFinding,
    read_conversation,
)
from kshare.wire.guess import Hints, hints_of
from kshare.wire.named_input import NamedInput, NamingLimits, name_input
from kshare.wire.pasted_text import from_file, from_text

_MIB = 1 << 20
NAMING = NamingLimits(bytes=_MIB, spans=20_000, guessing_spans=200_000)
CAPTURES = CaptureLimits(bytes=32 * _MIB, frame_bytes=8 * _MIB)
DEADLINE_S = 5.0
"""For reading a capture."""
MOST_IN_LINK = 16 * 1024
"""Bytes. Browsers and this server take such addresses, but not all proxies do."""
_LONGEST_HINT = 100
_VERSION = re.compile(r"-?[0-9]{1,5}")
_PACKED = re.compile(r"[A-Za-z0-9_-]+")
_TEXT_OVERHEAD = 150
"""Bytes in memory for each piece of a line, besides the text."""


@dataclass(frozen=True, slots=True)
class HintTexts:
    """What the user knows about the bytes, as it was typed."""

    kind: str = ""
    api: str = ""
    version: str = ""

    @property
    def parameters(self) -> dict[str, object]:
        return {"kind": self.kind, "api": self.api, "version": self.version}

    def parsed(self) -> Hints:
        """Raises ConfigError if nothing has such a name."""
        for text in (self.kind, self.api):
            if len(text) > _LONGEST_HINT:
                raise ConfigError("no message and no API has such a long name")
        if self.version and not _VERSION.fullmatch(self.version):
            raise ConfigError(f"{self.version[:_LONGEST_HINT]!r} isn't a version: write a whole number")
        return hints_of(self.kind, self.api, int(self.version) if self.version else None)


def hint_texts(given: Mapping[str, object]) -> HintTexts:
    kind, api, version = (str(given.get(name, "")).strip() for name in ("kind", "api", "version"))
    return HintTexts(kind, api, version)


@dataclass(frozen=True, slots=True)
class LoadedMessage:
    """Bytes to name."""

    data: bytes
    given: int
    """How many there were. No more are kept than are read."""
    is_masked: bool = False

    @property
    def notes(self) -> list[str]:
        if self.given == len(self.data):
            return []
        return [f"only the first {len(self.data):,} of {self.given:,} bytes were read"]


@dataclass(frozen=True, slots=True)
class LoadedCapture:
    name: str
    """Of its file."""
    conversation: Conversation
    size: int
    """About as many bytes of memory."""


def pasted(text: str, hints: HintTexts) -> LoadedMessage:
    """Raises ConfigError if the text doesn't stand for bytes, or no message fits the hints."""
    if not text.strip():
        raise ConfigError("no bytes at all: paste some as text, or load a file")
    data = from_text(text, most=NAMING.bytes)
    if is_capture(data):
        raise ConfigError("this is a capture: load it as a file")
    return _masked(data, hints)


def loaded(file: BinaryIO, name: str) -> LoadedMessage | LoadedCapture:
    """Takes seconds. Raises ConfigError or CaptureError if the file can't be read."""
    data = file.read()
    if not data:
        raise ConfigError(f"the file {name} is empty")
    if is_capture(data):
        until = time.monotonic() + DEADLINE_S
        found = read_conversation(data, lambda: time.monotonic() > until, limits=CAPTURES)
        return LoadedCapture(name, found, sum(map(_size, found.lines)))
    return _masked(bytes(from_file(data, most=NAMING.bytes)), HintTexts())


def name_message(message: LoadedMessage, hints: HintTexts) -> NamedInput:
    """Raises ConfigError if no message fits the hints."""
    return name_input(message.data, hints.parsed(), NAMING)


def packed(data: bytes) -> str:
    """For an address: base64url without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unpacked(text: str) -> LoadedMessage:
    """Raises ConfigError if it isn't what `packed` makes, or is too long."""
    if len(text) > MOST_IN_LINK * 4 // 3 + 2:
        raise ConfigError(f"a link has at most {MOST_IN_LINK:,} bytes: paste them, or load a file")
    if not _PACKED.fullmatch(text) or len(text) % 4 == 1:
        raise ConfigError("this link is damaged: its bytes aren't base64url")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return LoadedMessage(data, len(data))


def _masked(data: bytes, hints: HintTexts) -> LoadedMessage:
    read = data[: NAMING.bytes]
    found = name_message(LoadedMessage(read, len(data)), hints)
    seen = b"".join(part.named.buffers[0].data for part in found.parts)
    if seen == read[: len(seen)]:
        return LoadedMessage(read, len(data))
    masked = LoadedMessage(seen, len(data), is_masked=True)
    name_message(masked, hints)  # without its secrets, a message may no longer fit the hints
    return masked


def _size(line: ListedExchange | ListedFinding) -> int:
    size = sum(sys.getsizeof(text) + _TEXT_OVERHEAD for text, _ in line.line)
    if isinstance(line, ListedExchange) and line.frames is not None:
        size += len(line.frames.request) + len(line.frames.response or b"")
    return size
