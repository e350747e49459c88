"""The schema of a generated struct at run time, for JSON and for error messages that name the field."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple


class Spec(NamedTuple):
    """One field; version ranges are closed pairs."""

    json_name: str
    attribute: str
    type: str
    versions: tuple[int, int]
    nullable: tuple[int, int] | None
    tag: tuple[int, int, int] | None
    """Tag, and first and last version in which the field is tagged."""
    is_ignorable: bool
    is_compactable: bool
    """Whether it has the compact form in flexible versions (a single field in Kafka doesn't)."""

    def is_in(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def is_tagged_in(self, version: int) -> bool:
        return self.tag is not None and self.tag[1] <= version <= self.tag[2]

    def is_nullable_in(self, version: int) -> bool:
        return self.nullable is not None and self.nullable[0] <= version <= self.nullable[1]

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element(self) -> str:
        return self.type.removeprefix("[]")


_CACHE: dict[type[Any], tuple[Spec, ...]] = {}


def specs_of(cls: type[Any]) -> tuple[Spec, ...]:
    specs = _CACHE.get(cls)
    if specs is None:
        specs = _CACHE[cls] = tuple(Spec(*row) for row in cls.FIELDS)
    return specs


def struct_named(owner: type[Any], name: str) -> type[Any] | None:
    """The generated class of a field's type, which is in its owner's module; None for primitive types."""
    return getattr(sys.modules[owner.__module__], name, None) if name[0].isupper() else None


def field_path(path: str, name: str) -> str:
    """The path of a field, in the struct at this path."""
    return f"{path}.{name}" if path else name
