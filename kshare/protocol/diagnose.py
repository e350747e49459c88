"""Finds the field at which encoding or decoding failed: walks the message slowly, by its schema table.

To be fast, the codecs don't keep track of path and offset. If one fails, its work is repeated here with both. Never
overrules the codec: it is only called for messages that the codec refused.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kshare.errors import DecodeError, EncodeError
from kshare.protocol import primitives as p
from kshare.protocol.primitives import Buffer, MalformedError
from kshare.protocol.spec import Spec, field_path, specs_of, struct_named
from kshare.protocol.values import problem

if TYPE_CHECKING:
    from kshare.protocol.message import Message

_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}


# --- decoding


def explain_decode(
    cls: type[Message], data: Buffer, start: int, version: int, cause: Exception
) -> DecodeError:
    """The error to raise for bytes that `cls.decode_from` refused with `cause`."""
    walk = _DecodeWalk(data, cls.is_flexible(version), version)
    try:
        walk.struct(cls, start, "")
    except DecodeError as error:
        return error
    return DecodeError(cls.NAME, start, str(cause))


class _DecodeWalk:
    def __init__(self, data: Buffer, flexible: bool, version: int) -> None:
        self.data = data
        self.flexible = flexible
        self.version = version
        self.origin = 0  # the offset of `data` in the whole message, while inside a tagged field

    def struct(self, cls: type[Any], pos: int, path: str) -> int:
        specs = [spec for spec in specs_of(cls) if spec.is_in(self.version)]
        for spec in specs:
            if not spec.is_tagged_in(self.version):
                pos = self.field(cls, spec, pos, field_path(path, spec.json_name))
        return self.tags(cls, specs, pos, path) if self.flexible else pos

    def field(self, owner: type[Any], spec: Spec, pos: int, path: str) -> int:
        if spec.is_array:
            return self.array(owner, spec, pos, path)
        end = self.value(owner, spec, pos, path)
        if end is None:
            raise self.error(path, pos, "null, where the version allows none")
        return end

    def array(self, owner: type[Any], spec: Spec, pos: int, path: str) -> int:
        flexible = self.flexible and spec.is_compactable
        # A smallest size of 1 accepts larger counts than the codec does; then an element fails for lack of bytes.
        count, start = self.guard(path, pos, p.read_nullable_count, flexible, 1)
        if count < 0 and not spec.is_nullable_in(self.version):
            raise self.error(path, pos, "null, where the version allows none")
        element = spec._replace(type=spec.element, nullable=None)
        pos = start
        for i in range(count):
            if pos >= len(self.data):
                raise self.error(path, start, f"{count} elements announced, the bytes end after {i}")
            pos = self.field(owner, element, pos, f"{path}[{i}]")
        return pos

    def value(self, owner: type[Any], spec: Spec, pos: int, path: str) -> int | None:
        """Where the value ends; None if it is null and not nullable."""
        nullable = spec.is_nullable_in(self.version)
        inner = struct_named(owner, spec.type)
        if inner:
            if nullable:
                self.need(path, pos, 1)
                if self.data[pos] > 0x7F:
                    return pos + 1
                pos += 1
            return self.struct(inner, pos, path)
        if spec.type in _SIZES:
            self.need(path, pos, _SIZES[spec.type])
            return pos + _SIZES[spec.type]
        compact = "compact_" if self.flexible and spec.is_compactable else ""
        read = getattr(p, f"read_{compact}nullable_{spec.type}")
        value, end = self.guard(path, pos, read)
        return None if value is None and not nullable else int(end)

    def tags(self, cls: type[Any], specs: list[Spec], pos: int, path: str) -> int:
        where = field_path(path, "unknown_tags")
        raw, end = self.guard(where, pos, p.split_tags)
        for spec in specs:
            if spec.is_tagged_in(self.version) and spec.tag and spec.tag[0] in raw:
                self.tagged(cls, spec, raw[spec.tag[0]], pos, end, field_path(path, spec.json_name))
        return int(end)

    def tagged(self, cls: type[Any], spec: Spec, part: bytes, pos: int, end: int, path: str) -> None:
        outer, origin = self.data, self.origin
        self.origin += max(pos, bytes(outer[pos:end]).find(part) + pos)
        self.data = part
        done = self.field(cls, spec, 0, path)
        if done != len(part):
            raise self.error(path, done, f"a tagged field of {len(part)} bytes, {done} were needed")
        self.data, self.origin = outer, origin

    def need(self, path: str, pos: int, size: int) -> None:
        if pos + size > len(self.data):
            raise self.error(path, pos, f"{size} bytes needed, {max(0, len(self.data) - pos)} are left")

    def guard(self, path: str, pos: int, read: Any, *rest: Any) -> tuple[Any, int]:
        try:
            value, end = read(self.data, pos, *rest)
        except MalformedError as error:
            raise self.error(path, pos, str(error)) from None
        except UnicodeDecodeError as error:
            raise self.error(path, pos, f"not UTF-8: {error.reason}") from None
        except (IndexError, struct.error):
            raise self.error(path, pos, f"cut short: {max(0, len(self.data) - pos)} bytes are left") from None
        return value, end

    def error(self, path: str, pos: int, reason: str) -> DecodeError:
        return DecodeError(path, self.origin + pos, reason)


# --- encoding


def explain_encode(message: Message, version: int, cause: Exception) -> EncodeError:
    """The error to raise for a message that `encode_into` refused with `cause`."""
    found = _encode_problem(message, version, message.is_flexible(version), "")
    return EncodeError(*found) if found else EncodeError(message.NAME, f"{type(cause).__name__}: {cause}")


def _encode_problem(value: Any, version: int, flexible: bool, path: str) -> tuple[str, str] | None:
    cls = type(value)
    fresh = cls()
    for spec in specs_of(cls):
        where = field_path(path, spec.json_name)
        item = getattr(value, spec.attribute)
        if not spec.is_in(version):
            if not spec.is_ignorable and item != getattr(fresh, spec.attribute):
                return (
                    where,
                    f"version {version} can't carry it (versions {spec.versions[0]} to {spec.versions[1]} can)",
                )
            continue
        found = _field_problem(cls, spec, item, version, flexible, where)
        if found:
            return found
    return _tags_problem(value, version, flexible, path)


def _field_problem(
    owner: type[Any], spec: Spec, item: Any, version: int, flexible: bool, where: str
) -> tuple[str, str] | None:
    if item is None:
        return None if spec.is_nullable_in(version) else (where, f"may not be null in version {version}")
    if spec.is_array:
        if spec.type == "[]int8":
            return None if isinstance(item, bytes | bytearray) else (where, "int8s are given as bytes")
        if not isinstance(item, list | tuple):
            return where, f"must be a list, not {type(item).__name__}"
        element = spec._replace(type=spec.element, nullable=None)
        for i, part in enumerate(item):
            found = _field_problem(owner, element, part, version, flexible, f"{where}[{i}]")
            if found:
                return found
        return None
    inner = struct_named(owner, spec.type)
    if inner is None:
        reason = problem(spec.type, item)
        return (where, reason) if reason else None
    if not isinstance(item, inner):
        return where, f"must be a {inner.__name__}, not {type(item).__name__}"
    return _encode_problem(item, version, flexible, where)


def _tags_problem(value: Any, version: int, flexible: bool, path: str) -> tuple[str, str] | None:
    unknown = value.unknown_tags
    if not unknown:
        return None
    where = field_path(path, "unknown_tags")
    if not flexible:
        return where, f"version {version} has no tagged fields"
    known = {
        spec.tag[0]: spec.json_name
        for spec in specs_of(type(value))
        if spec.tag and spec.is_tagged_in(version)
    }
    try:
        tags, end = p.split_tags(unknown, 0)
    except (IndexError, TypeError, MalformedError) as error:
        return where, f"must be tagged fields as they are on the wire: {error}"
    for tag in tags:
        if tag in known:
            return where, f"tag {tag} is the schema's own {known[tag]}"
    return None if end == len(unknown) else (where, "holds more than tagged fields")
