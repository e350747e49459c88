"""Parses records from input: lines, lines with keys, JSON objects. An invalid line is refused with its number.

In JSON, a key or value may be a string, null, {"base64": "AP8="} for bytes, or any other JSON value, which becomes the
record's text.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import typer

from kshare.cli.terminal.arguments import named_values
from kshare.cli.terminal.failure import Failure

Headers = tuple[tuple[str, bytes | None], ...]

_FIELDS = {"key", "value", "headers", "partition", "timestamp"}
_SHOWN = {"topic", "offset", "delivery_count", "timestamp_type"}
"""Other fields of `consume --json`. They are ignored, so that its lines can be written again."""


class Draft(NamedTuple):
    """A record to be written; its partition may still have to be chosen."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """Defaults for all records."""

    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    separator: str | None = None
    null: str | None = None

    @classmethod
    def of(
        cls,
        key: str | None,
        headers: Sequence[str],
        partition: int | None,
        separator: str | None,
        null: str | None,
    ) -> Template:
        """From the options of the command line."""
        pairs = named_values(
            headers, lambda text: typer.BadParameter(f"--header {text!r} should be NAME=VALUE")
        )
        encoded = tuple((name, content.encode()) for name, content in pairs)
        if separator == "":
            raise typer.BadParameter("--key-separator must not be empty")
        if key is not None and separator is not None:
            raise typer.BadParameter("--key and --key-separator exclude each other: which is the key?")
        return cls(None if key is None else key.encode(), encoded, partition, separator, null)

    def from_line(self, line: bytes, number: int) -> Draft:
        key, value = self.key, line
        if self.separator is not None:
            before, found, value = line.partition(self.separator.encode())
            if not found:
                raise Failure(f"line {number}: there is no {self.separator!r} between key and value")
            key = self._or_null(before)
        return Draft(self._or_null(value), key, self.headers, self.partition)

    def from_json(self, line: bytes, number: int) -> Draft:
        try:
            form = json.loads(line)
        except json.JSONDecodeError as error:
            raise Failure(f"line {number}: not JSON ({error.msg}, column {error.colno})") from None
        except UnicodeDecodeError:
            raise Failure(f"line {number}: not JSON (not valid UTF-8)") from None
        try:
            if not isinstance(form, dict):
                raise ValueError('this should be an object, such as {"value": "text"}')
            unknown = form.keys() - _FIELDS - _SHOWN
            if unknown:
                raise ValueError(f"{min(unknown)!r} is not one of {', '.join(sorted(_FIELDS))}")
            return self._from_object(form)
        except ValueError as problem:
            raise Failure(f"line {number}: {problem}") from None

    def whole(self, content: bytes) -> Draft:
        return Draft(content, self.key, self.headers, self.partition)

    def _from_object(self, form: dict[str, Any]) -> Draft:
        headers = (*self.headers, *_headers(form.get("headers")))
        partition = self.partition if self.partition is not None else _number(form, "partition")
        key = _bytes(form["key"]) if "key" in form else self.key
        return Draft(_bytes(form.get("value")), key, headers, partition, _number(form, "timestamp"))

    def _or_null(self, content: bytes) -> bytes | None:
        return None if self.null is not None and content == self.null.encode() else content


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError):
            raise ValueError(f"{value['base64']!r} is not base64") from None
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _headers(value: Any) -> Iterable[tuple[str, bytes | None]]:
    """Parse [["name", "value"], ...], where a name may occur twice, or an object."""
    pairs = list(value.items()) if isinstance(value, dict) else value or []
    for pair in pairs if isinstance(pairs, list) else [None]:
        match pair:
            case [str(name), content] | (str(name), content):
                yield name, _bytes(content)
            case _:
                raise ValueError('headers should be [["name", "value"], ...] or {"name": "value"}')


def _number(form: dict[str, Any], name: str) -> int | None:
    number = form.get(name)
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
        raise ValueError(f"{name} should be a whole number, not {number!r}")
    return number
