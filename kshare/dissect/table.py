"""The types of the generated tables in `fields/`, and how to look one up by message name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import import_module

from .fields import index

VersionRange = tuple[int, int]
NEVER: VersionRange = (1, 0)


class Default(Enum):
    ZERO = "the type's own: 0, false, empty"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a schema. Version ranges are closed; `struct` contains the fields of a struct or of its array."""

    name: str
    type: str
    versions: VersionRange
    nullable: VersionRange = NEVER
    tagged: VersionRange = NEVER
    tag: int | None = None
    flexible: VersionRange | None = None  # where it differs from the message
    default: object = Default.ZERO
    entity: str = ""
    struct: tuple[Field, ...] | None = None
    about: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    name: str
    kind: str
    api_key: int | None
    versions: VersionRange
    flexible: VersionRange
    about: str
    fields: tuple[Field, ...]

    def has(self, version: int) -> bool:
        return within(version, self.versions)

    def is_flexible(self, version: int) -> bool:
        return within(version, self.flexible)


def within(version: int, versions: VersionRange) -> bool:
    return versions[0] <= version <= versions[1]


@cache
def message(name: str) -> Message:
    """The table of a message; raises KeyError if no schema has that name."""
    table: Message = import_module(f"{__package__}.fields.{index.MODULES[name]}").MESSAGE
    return table
