"""Formats a record as a line: as Kafka's console consumers print it, or as a JSON object.

Data that the chosen deserializer can't read raises Unreadable, which names the record but never shows its content.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import typer

from kshare.cli.consume.deserializers import Deserializer, deserializer, text_of
from kshare.errors import Copyable
from kshare.wording import did_you_mean

if TYPE_CHECKING:
    from kshare.client.record import ShareRecord  # which completion doesn't need


class RecordFormat(Protocol):
    def write(self, record: ShareRecord) -> bytes:
        """The output for a record, including line ends."""
        ...


class Unreadable(Copyable):
    """A key, value or header couldn't be deserialized."""

    def __init__(self, record: ShareRecord, part: str, error: Exception) -> None:
        where = f"{record.topic}[{record.partition}]@{record.offset}"
        super().__init__(f"{where}: its {part} can't be read: {error}")


@dataclass(frozen=True, slots=True)
class Readers:
    """Deserializers of keys, values and headers; None leaves bytes as they are."""

    key: Deserializer | None = None
    value: Deserializer | None = None
    headers: Deserializer | None = None

    @classmethod
    def of(cls, key: str | None, value: str | None, headers: str | None = None) -> Readers:
        return cls(*(None if name is None else deserializer(name) for name in (key, value, headers)))

    def read(self, record: ShareRecord, part: str, data: bytes) -> Any:
        """`part` is key, value or headers."""
        function: Deserializer | None = getattr(self, part)
        if function is None:
            return data
        try:
            return function(data)
        except Exception as error:
            raise Unreadable(record, part, error) from None

    def bytes_of(self, record: ShareRecord, part: str, data: bytes) -> bytes:
        """The bytes to print."""
        value = self.read(record, part, data)
        return value if isinstance(value, bytes) else text_of(value).encode("utf-8", "replace")


class JsonFormat:
    """One object per line, for `produce --input json`. Bytes that aren't text are {"base64": ...}."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    def write(self, record: ShareRecord) -> bytes:
        form = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": "log_append" if record.has_append_time else "create",
            "delivery_count": record.delivery_count,
            "headers": [[name, self._json_value(record, "headers", data)] for name, data in record.headers],
            "key": self._json_value(record, "key", record.key),
            "value": self._json_value(record, "value", record.value),
        }
        return json.dumps(form, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    def _json_value(self, record: ShareRecord, part: str, data: bytes | None) -> Any:
        value = None if data is None else self._readers.read(record, part, data)
        if not isinstance(value, bytes):
            return value
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}


_PLAIN: dict[str, Callable[[ShareRecord], str]] = {
    "timestamp": lambda record: (
        f"{'LogAppendTime' if record.has_append_time else 'CreateTime'}:{record.timestamp}"
    ),
    "partition": lambda record: f"Partition:{record.partition}",
    "offset": lambda record: f"Offset:{record.offset}",
    "delivery": lambda record: f"Delivery:{record.delivery_count}",
    "epoch": lambda record: "Epoch:NOT_PRESENT",  # share fetches don't have it; Kafka's tool prints the same
}
_PRINT = (*_PLAIN, "headers", "key", "value")
"""In the order in which they are printed."""
_TEXTS = {"key.separator": "\t", "line.separator": "\n", "headers.separator": ",", "null.literal": "null"}
_READERS = ("key.deserializer", "value.deserializer", "headers.deserializer")
PROPERTIES = (*(f"print.{name}" for name in _PRINT), *_TEXTS, *_READERS)


class KafkaFormat:
    """The lines of Kafka's own tools, with the same properties."""

    def __init__(self, properties: Mapping[str, str], readers: Readers) -> None:
        for name in properties:
            if name not in PROPERTIES:
                hint = did_you_mean(name, PROPERTIES) or f"; there are {', '.join(PROPERTIES)}"
                raise typer.BadParameter(f"there is no formatter property {name!r}{hint}")
        self._parts = [
            name
            for name in _PRINT
            if properties.get(f"print.{name}", str(name == "value")).strip().lower() == "true"
        ]
        texts = {name: properties.get(name, usual).encode() for name, usual in _TEXTS.items()}
        self._between, self._end = texts["key.separator"], texts["line.separator"]
        self._between_headers, self._null = texts["headers.separator"], texts["null.literal"]
        self._readers = readers

    def write(self, record: ShareRecord) -> bytes:
        if not self._parts:
            return b""
        return self._between.join([self._part(record, name) for name in self._parts]) + self._end

    def _part(self, record: ShareRecord, name: str) -> bytes:
        match name:
            case "headers":
                pairs = [
                    name.encode() + b":" + self._content(record, "headers", data)
                    for name, data in record.headers
                ]
                return self._between_headers.join(pairs) or b"NO_HEADERS"
            case "key":
                return self._content(record, "key", record.key)
            case "value":
                return self._content(record, "value", record.value)
        return _PLAIN[name](record).encode()

    def _content(self, record: ShareRecord, part: str, data: bytes | None) -> bytes:
        return self._null if data is None else self._readers.bytes_of(record, part, data)
