"""Reads untrusted JSON strictly: each field has the expected type and a limited size. Pure.

Fields that aren't expected are ignored, so that later versions can add some. Texts are returned with control characters
escaped, as they are shown.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import NoReturn, TypeVar

from kshare.log_text import escaped

EnumT = TypeVar("EnumT", bound=StrEnum)

_LONGEST_TEXT = 300
_LARGEST = 2**63 - 1


class NotExpected(ValueError):
    """The message says which field is wrong, and how."""


class NotJson(NotExpected):
    """There are no fields at all."""


class JsonTable:
    """An object in JSON. `where` is its path, for errors."""

    def __init__(self, fields: dict[str, object], where: str = "") -> None:
        self._fields = fields
        self._where = where

    @classmethod
    def parse(cls, data: bytes) -> JsonTable:
        try:
            value = json.loads(data, parse_constant=_refuse)
        except (ValueError, RecursionError) as problem:
            raise NotJson("it isn't JSON") from problem
        if not isinstance(value, dict):
            raise NotJson("it isn't an object in JSON")
        return cls(value)

    def require_schema(self, number: int) -> None:
        found = self.whole("schema")
        if found != number:
            raise NotExpected(f"it has schema {found}, and this version of kshare reads schema {number}")

    def text(self, name: str) -> str:
        return self._text(self._fields.get(name), name)

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        found = self._list(name, most)
        return tuple(self._text(text, f"{name}[{number}]") for number, text in enumerate(found))

    def choice(self, name: str, kind: type[EnumT]) -> EnumT:
        text = self.text(name)
        try:
            return kind(text)
        except ValueError:
            self._refuse(name, f"must be one of {', '.join(kind)}, not {text:.80}")

    def whole(self, name: str, least: int = 0) -> int:
        found = self._fields.get(name)
        if type(found) is not int or not least <= found <= _LARGEST:
            self._refuse(name, f"must be a whole number from {least}")
        return found

    def number(self, name: str, most: float = _LARGEST) -> float:
        """Not negative."""
        found = self._fields.get(name)
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= most:
            self._refuse(name, f"must be a number from 0 to {most:,.0f}")
        return float(found)

    def table(self, name: str) -> JsonTable:
        return self._table(self._fields.get(name), name)

    def tables(self, name: str, most: int) -> list[JsonTable]:
        return [
            self._table(fields, f"{name}[{number}]") for number, fields in enumerate(self._list(name, most))
        ]

    def _text(self, found: object, name: str) -> str:
        if not isinstance(found, str):
            self._refuse(name, "must be a text")
        if len(found) > _LONGEST_TEXT:
            self._refuse(name, f"must be no longer than {_LONGEST_TEXT} characters")
        return escaped(found)

    def _list(self, name: str, most: int) -> list[object]:
        found = self._fields.get(name)
        if not isinstance(found, list) or len(found) > most:
            self._refuse(name, f"must be a list of at most {most:,}")
        return found

    def _table(self, found: object, name: str) -> JsonTable:
        if not isinstance(found, dict):
            self._refuse(name, "must be an object")
        return JsonTable(found, f"{self._where}{name}.")

    def _refuse(self, name: str, what: str) -> NoReturn:
        raise NotExpected(f"{self._where}{name} {what}")


def _refuse(constant: str) -> NoReturn:
    """NaN and infinity aren't JSON."""
    raise ValueError(constant)
