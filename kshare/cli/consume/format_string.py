r"""Custom output formats: `%t[%p]@%o %k=%s\n`, much as in kcat, or with names: `%{topic} %{header:trace}\n`.

Nothing is added to the format: a line ends only where it says \n.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import typer

from kshare.cli.consume.record_text import Readers
from kshare.client.record import ShareRecord
from kshare.wording import iso_time

FormatPart = Callable[[ShareRecord], bytes]

_LETTERS = {
    "t": "topic",
    "p": "partition",
    "o": "offset",
    "k": "key",
    "K": "key_length",
    "s": "value",
    "S": "value_length",
    "h": "headers",
    "T": "timestamp",
    "D": "time",
    "d": "delivery_count",
}
_NULL_LENGTH = -1
_PIECE = re.compile(r"%(?:\{([^}]*)\}|(.?))", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|.)", re.DOTALL)


FIELDS = ", ".join(
    [*(f"%{letter} {meaning}" for letter, meaning in _LETTERS.items()), "%{header:NAME}", "%{NAME}", "%%"]
)
"""All fields, for users."""


_PLAIN: dict[str, Callable[[ShareRecord], object]] = {
    "topic": lambda record: record.topic,
    "partition": lambda record: record.partition,
    "offset": lambda record: record.offset,
    "key_length": lambda record: _length(record.key),
    "value_length": lambda record: _length(record.value),
    "timestamp": lambda record: record.timestamp,
    "time": lambda record: iso_time(record.timestamp),
    "delivery_count": lambda record: record.delivery_count,
}
"""Fields that deserializers don't concern."""


class FormatString:
    def __init__(self, text: str, readers: Readers, null: str = "null") -> None:
        self._readers = readers
        self._null = null.encode()
        self._pieces = [*self._compile(text)]

    def write(self, record: ShareRecord) -> bytes:
        return b"".join([piece if isinstance(piece, bytes) else piece(record) for piece in self._pieces])

    def _compile(self, text: str) -> Iterator[bytes | FormatPart]:
        at = 0
        for match in _PIECE.finditer(text):
            yield _unescaped(text[at : match.start()])
            at = match.end()
            if match[2] == "%":
                yield b"%"
            else:
                name = match[1] if match[1] is not None else _LETTERS.get(match[2], "")
                yield self._field(name, match[0])
        yield _unescaped(text[at:])

    def _field(self, name: str, written: str) -> FormatPart:
        kind, _, detail = name.partition(":")
        if kind == "header" and detail:
            return lambda record: self._header(record, detail)
        match name:
            case "key":
                return lambda record: self._content(record, "key", record.key)
            case "value":
                return lambda record: self._content(record, "value", record.value)
            case "headers":
                return self._headers
        if name not in _PLAIN:
            raise typer.BadParameter(f"--format: unknown field {written}; the fields are {FIELDS}")
        field = _PLAIN[name]
        return lambda record: str(field(record)).encode()

    def _headers(self, record: ShareRecord) -> bytes:
        pairs = (
            name.encode() + b"=" + self._content(record, "headers", data) for name, data in record.headers
        )
        return b",".join(pairs)

    def _header(self, record: ShareRecord, wanted: str) -> bytes:
        """The last header of that name; empty if there is none."""
        for name, data in reversed(record.headers):
            if name == wanted:
                return self._content(record, "headers", data)
        return b""

    def _content(self, record: ShareRecord, part: str, data: bytes | None) -> bytes:
        return self._null if data is None else self._readers.bytes_of(record, part, data)


def _length(data: bytes | None) -> int:
    return _NULL_LENGTH if data is None else len(data)


def _unescaped(text: str) -> bytes:
    r"""Replace \n, \t, \r, \0, \\ and \xff."""
    out = b""
    at = 0
    for match in _ESCAPE.finditer(text):
        out += text[at : match.start()].encode() + _escaped(match[0])
        at = match.end()
    return out + text[at:].encode()


def _escaped(written: str) -> bytes:
    simple = {"\\n": b"\n", "\\t": b"\t", "\\r": b"\r", "\\0": b"\0", "\\\\": b"\\"}
    if written in simple:
        return simple[written]
    if written.startswith("\\x") and len(written) == 4:
        return bytes([int(written[2:], 16)])
    return written.encode()
