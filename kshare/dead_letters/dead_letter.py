"""A dead letter: the origin of its record, the group, and the reason.

Brokers write this into headers since Kafka 4.4. Other programs that write dead letters may use the same headers, and
add more. Keys and values aren't interpreted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kshare.admin.reading_budget import LETTER_PREFIX, KeptRecord, bounded_headers
from kshare.protocol.record import Record
from kshare.protocol.topic_names import is_topic_name

PREFIX = LETTER_PREFIX
TRUNCATED = "truncated"
MOVED_FROM, MOVED_FIRST = MOVED_HEADERS = "moved.from", "moved.first"
MEANINGS = {
    "topic": "the topic of the original record",
    "partition": "its partition",
    "offset": "its offset; it can be read there until retention removes it",
    "group": "the share group that archived it",
    "delivery.count": "how many times it was delivered to the group",
    "message": "why it was archived",
    TRUNCATED: "how many bytes its value had, before it was cut because it was too large for this topic",
    MOVED_FROM: "where it was before kshare wrote it again, so that it wouldn't be archived",
    MOVED_FIRST: "where it was at first, if it was written again more than once",
}
_DIGITS = re.compile(r"[0-9]{1,19}")
_MOST_PARTITION, _MOST_OFFSET = 2**31 - 1, 2**63 - 1
_LONGEST_HEADER = 64 << 10
_OVERHEAD = 500
_UNKNOWN_MEANING = "added by the program that wrote the dead letter"

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Origin:
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    topic: str
    partition: int
    offset: int
    timestamp: int
    """When it was written, in milliseconds since 1970."""
    key: bytes | None
    value: bytes | None
    context: dict[str, bytes | None]
    """Headers about the record, without their prefix."""
    own_headers: tuple[Header, ...]
    """Headers of the original record; only the first if there are more than anybody would read."""
    origin: Origin | None
    """None if the headers are missing or invalid."""
    identity: bytes = b""
    """Of a letter that was cut: what `letter_identity` said of the whole."""
    more_headers: int = 0
    """How many headers were not read."""

    @property
    def is_dead_letter(self) -> bool:
        """False for a record without dead-letter headers."""
        return bool(self.context)

    @property
    def place(self) -> str:
        return f"{self.partition}:{self.offset}"

    @property
    def moved_from(self) -> str | None:
        """The place that it was copied from, if it was moved."""
        return self._text(MOVED_FROM)

    @property
    def first_place(self) -> str:
        """Where it was before it was moved for the first time: the same for all its copies."""
        return self._text(MOVED_FIRST) or self.moved_from or self.place

    @property
    def group(self) -> str | None:
        return self._text("group")

    @property
    def reason(self) -> str | None:
        return self._text("message")

    @property
    def deliveries(self) -> int | None:
        return _number(self._text("delivery.count"))

    @property
    def has_copy(self) -> bool:
        """Whether key or value was copied. A record that had neither looks the same as one that wasn't copied."""
        return self.key is not None or self.value is not None

    @property
    def whole_size(self) -> int | None:
        """How many bytes the value had, if the program that wrote the dead letter has cut it."""
        return _number(self._text(TRUNCATED))

    @property
    def kept_bytes(self) -> int:
        parts = [self.key, self.value, *self.context.values(), *(value for _, value in self.own_headers)]
        names = [*self.context, *(name for name, _ in self.own_headers)]
        return sum(len(part or b"") for part in parts) + sum(map(len, names)) + _OVERHEAD

    def cut(self, longest: int, identity: bytes) -> DeadLetter:
        """To be shown: at most so many bytes of key and value, and of each header what anybody would read."""
        return replace(
            self,
            key=None if self.key is None else self.key[:longest],
            value=None if self.value is None else self.value[:longest],
            context={name: _beginning(value) for name, value in self.context.items()},
            identity=identity,
            own_headers=tuple((name, _beginning(value)) for name, value in self.own_headers),
        )

    def _text(self, name: str) -> str | None:
        return _text(self.context.get(name))


def read(topic: str, partition: int, record: Record | KeptRecord) -> DeadLetter:
    """Parse any record. If it isn't a dead letter, its context is empty."""
    context: dict[str, bytes | None] = {}
    own: list[Header] = []
    headers = bounded_headers(record)
    for name, value in headers:
        kept = None if value is None else bytes(value)
        if name.startswith(PREFIX):
            context[name.removeprefix(PREFIX)] = kept
        else:
            own.append((name, kept))
    return DeadLetter(
        topic,
        partition,
        record.offset,
        record.timestamp,
        None if record.key is None else bytes(record.key),
        None if record.value is None else bytes(record.value),
        context,
        tuple(own),
        _origin(context),
        more_headers=record.header_count - len(headers),
    )


def meaning(name: str) -> str:
    return MEANINGS.get(name, _UNKNOWN_MEANING)


def readable(value: bytes | None) -> str:
    """A printable form: text if possible, otherwise bytes as Python writes them."""
    if value is None:
        return "-"
    text = _text(value)
    if text is None or not text.isprintable():
        return repr(value)[2:-1]
    return text


def _origin(context: dict[str, bytes | None]) -> Origin | None:
    topic = _text(context.get("topic"))
    partition, offset = (_number(_text(context.get(name))) for name in ("partition", "offset"))
    if topic is None or not is_topic_name(topic) or partition is None or offset is None:
        return None
    return Origin(topic, partition, offset) if partition <= _MOST_PARTITION else None


def _beginning(value: bytes | None) -> bytes | None:
    return None if value is None else value[:_LONGEST_HEADER]


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _number(text: str | None) -> int | None:
    """None unless brokers could have written it: anybody who may write to the topic can write any header."""
    if text is None or not _DIGITS.fullmatch(text):
        return None
    number = int(text)
    return number if number <= _MOST_OFFSET else None
