r"""Custom output formats: `%t[%p]@%o %k=%s\n`, much as in kcat, or with names: `%{topic} %{header:trace}\n`.

Nothing is added to the format: a line ends only where it says \n.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import typer

from kshare.cli.consume.record_text import PrintableRecord, Readers
from kshare.wording import iso_time

FormatPart = Callable[[PrintableRecord], bytes]

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


class FormatString:
    def __init__(self, text: str, readers: Readers, null: str = "null") -> None:
        self._fields = _Fields(readers, null.encode())
        self._pieces = [*self._compile(text)]

    def write(self, record: PrintableRecord) -> bytes:
        return b"".join([piece if isinstance(piece, bytes) else piece(record) for piece in self._pieces])

    def _compile(self, text: str) -> list[bytes | FormatPart]:
        pieces: list[bytes | FormatPart] = []
        at = 0
        for match in _PIECE.finditer(text):
            pieces.append(_unescaped(text[at : match.start()]))
            at = match.end()
            if match[2] == "%":
                pieces.append(b"%")
                continue
            name = match[1] if match[1] is not None else _LETTERS.get(match[2], "")
            pieces.append(self._fields.piece(name, match[0]))
        pieces.append(_unescaped(text[at:]))
        return pieces


class _Fields(NamedTuple):
    """What may follow a %."""

    readers: Readers
    null: bytes

    def piece(self, name: str, written: str) -> FormatPart:
        kind, _, detail = name.partition(":")
        if kind == "header" and detail:
            return lambda record: self._header(record, detail)
        found = getattr(self, f"_{name}", None) if name in _LETTERS.values() else None
        if found is None:
            raise typer.BadParameter(f"--format: unknown field {written}; the fields are {FIELDS}")
        piece: FormatPart = found
        return piece

    def _topic(self, record: PrintableRecord) -> bytes:
        return record.topic.encode()

    def _partition(self, record: PrintableRecord) -> bytes:
        return b"%d" % record.partition

    def _offset(self, record: PrintableRecord) -> bytes:
        return b"%d" % record.offset

    def _key(self, record: PrintableRecord) -> bytes:
        return self._content(record, "key", record.key)

    def _value(self, record: PrintableRecord) -> bytes:
        return self._content(record, "value", record.value)

    def _key_length(self, record: PrintableRecord) -> bytes:
        return b"%d" % (_NULL_LENGTH if record.key is None else len(record.key))

    def _value_length(self, record: PrintableRecord) -> bytes:
        return b"%d" % (_NULL_LENGTH if record.value is None else len(record.value))

    def _timestamp(self, record: PrintableRecord) -> bytes:
        return b"%d" % record.timestamp

    def _time(self, record: PrintableRecord) -> bytes:
        return iso_time(record.timestamp).encode()

    def _delivery_count(self, record: PrintableRecord) -> bytes:
        return b"%d" % record.delivery_count

    def _headers(self, record: PrintableRecord) -> bytes:
        pairs = (
            name.encode() + b"=" + self._content(record, "headers", data) for name, data in record.headers
        )
        return b",".join(pairs)

    def _header(self, record: PrintableRecord, wanted: str) -> bytes:
        """The last header of that name; empty if there is none."""
        for name, data in reversed(record.headers):
            if name == wanted:
                return self._content(record, "headers", data)
        return b""

    def _content(self, record: PrintableRecord, part: str, data: bytes | None) -> bytes:
        return self.null if data is None else self.readers.bytes_of(record, part, data)


def _unescaped(text: str) -> bytes:
    r"""Replace \n, \t, \r, \0, \\ and \xff."""
    out = b""
    at = 0
    for match in _ESCAPE.finditer(text):
        out += text[at : match.start()].encode()
        at = match.end()
        out += _escaped(match[0])
    return out + text[at:].encode()


def _escaped(written: str) -> bytes:
    simple = {"\\n": b"\n", "\\t": b"\t", "\\r": b"\r", "\\0": b"\0", "\\\\": b"\\"}
    if written in simple:
        return simple[written]
    if written.startswith("\\x") and len(written) == 4:
        return bytes([int(written[2:], 16)])
    return written.encode()
