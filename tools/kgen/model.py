"""The model of the schemas: reads Kafka's message definitions, and raises errors for what the format doesn't allow.

Decides what a schema means: which versions have a field, and how it is encoded. The generators of the codecs and of the
dissector's layouts both use this model. Every error names the file and the JSON path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

FIXED_SIZES = {
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
INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
VARIABLE = {"string", "bytes", "records"}
MESSAGE_KINDS = {"request", "response", "header", "data", "coordinator-key", "coordinator-value"}
HIGHEST = 32767

_MESSAGE_KEYS = {
    "apiKey",
    "type",
    "name",
    "validVersions",
    "flexibleVersions",
    "latestVersionUnstable",
    "listeners",
    "about",
    "commonStructs",
    "fields",
}
_FIELD_KEYS = {
    "name",
    "type",
    "versions",
    "nullableVersions",
    "flexibleVersions",
    "tag",
    "taggedVersions",
    "ignorable",
    "mapKey",
    "default",
    "entityType",
    "zeroCopy",
    "about",
    "fields",
}


class SchemaError(Exception):
    """A schema file is invalid; the message names the file and the JSON path."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included; empty if first > last."""

    first: int
    last: int

    def __bool__(self) -> bool:
        return self.first <= self.last

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __and__(self, other: Versions) -> Versions:
        return Versions(max(self.first, other.first), min(self.last, other.last))

    def covers(self, other: Versions) -> bool:
        return not other or (self.first <= other.first and other.last <= self.last)


NONE = Versions(1, 0)


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a field. `name` is a primitive or a struct; with `is_array`, the type of the elements."""

    name: str
    is_array: bool
    struct: Struct | None = None

    @property
    def is_fixed(self) -> bool:
        return not self.is_array and self.name in FIXED_SIZES

    def __str__(self) -> str:
        return f"[]{self.name}" if self.is_array else self.name


@dataclass(slots=True)
class Field:
    name: str
    type: Type
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    flexible: Versions
    ignorable: bool
    is_map_key: bool
    default: Any
    about: str
    entity: str = ""  # what the value identifies: topicName, groupId, brokerId ...

    @property
    def json_name(self) -> str:
        return self.name[0].lower() + self.name[1:]

    @property
    def attribute(self) -> str:
        spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", self.name)
        return spaced.lower()


@dataclass(slots=True)
class Struct:
    """A group of fields; `versions` are those in which the message can contain it."""

    name: str
    versions: Versions
    fields: list[Field] = field(default_factory=list)
    about: str = ""

    def __hash__(self) -> int:
        return id(self)

    @property
    def reachable(self) -> list[Field]:
        """The fields that some valid version has. Others are in the schema for historical reasons."""
        return [f for f in self.fields if f.versions]

    @property
    def tagged(self) -> list[Field]:
        return sorted((f for f in self.reachable if f.tag is not None), key=lambda f: f.tag or 0)


@dataclass(slots=True)
class Message:
    name: str
    kind: str
    api_key: int | None
    versions: Versions
    flexible: Versions
    about: str
    file: str
    body: Struct
    structs: list[Struct]  # every nested struct, children before their parents

    @property
    def api_name(self) -> str:
        return re.sub(r"(Request|Response)$", "", self.name)


def read_folder(folder: Path) -> list[Message]:
    """All messages of a folder, sorted by name. Raises SchemaError for a request without a response, and vice versa."""
    paths = sorted(p for p in folder.glob("[A-Z]*.json"))
    if not paths:
        raise SchemaError(f"{folder}: has no schema")
    messages = [read_file(path) for path in paths]
    names = {message.name for message in messages}
    for message in messages:
        other = {"request": "Response", "response": "Request"}.get(message.kind)
        if other and message.api_name + other not in names:
            raise SchemaError(
                f"{message.file}: $.name: {message.name} has no corresponding {message.api_name}{other} here"
            )
    return messages


def read_file(path: Path) -> Message:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise SchemaError(f"{path.name}: line {error.lineno}: not JSON: {error.msg}") from error
    if path.stem != document.get("name"):
        raise SchemaError(f"{path.name}: $.name: is {document.get('name')!r}, must equal the file's name")
    return read_document(document, path.name)


def read_document(document: Mapping[str, Any], file: str) -> Message:
    return _Reader(file).message(document)


class _Reader:
    """Reads one file. Has the file name, for errors, and the structs that were defined so far."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.versions = NONE
        self.flexible = NONE
        self.structs: dict[str, Struct] = {}
        self.common: dict[str, tuple[Mapping[str, Any], str]] = {}
        self.open: list[str] = []

    def fail(self, path: str, reason: str) -> NoReturn:
        raise SchemaError(f"{self.file}: {path}: {reason}")

    def message(self, document: Mapping[str, Any]) -> Message:
        self.known_keys(document, _MESSAGE_KEYS, "$")
        kind = self.text(document, "type", "$")
        if kind not in MESSAGE_KINDS:
            self.fail("$.type", f"{kind!r} is none of {', '.join(sorted(MESSAGE_KINDS))}")
        api_key = document.get("apiKey")
        if kind in ("request", "response") and not isinstance(api_key, int):
            self.fail("$.apiKey", "a request or response needs an integer")
        self.versions = self.range(document, "validVersions", "$")
        if not self.versions:
            self.fail("$.validVersions", "no version is valid")
        if self.versions.last == HIGHEST:
            self.fail("$.validVersions", "must have a last version")
        self.flexible = self.range(document, "flexibleVersions", "$")
        for i, struct in enumerate(document.get("commonStructs", [])):
            self.common[self.text(struct, "name", f"$.commonStructs[{i}]")] = (
                struct,
                f"$.commonStructs[{i}]",
            )
        body = Struct(self.text(document, "name", "$"), self.versions, about=document.get("about", ""))
        body.fields = self.fields(document.get("fields"), body.versions, "$.fields")
        unused = [name for name in self.common if name not in self.structs]
        if unused:
            self.fail(self.common[unused[0]][1], f"common struct {unused[0]} is used by no field")
        return Message(
            name=body.name,
            kind=kind,
            api_key=api_key,
            versions=self.versions,
            flexible=self.flexible & self.versions,
            about=body.about,
            file=self.file,
            body=body,
            structs=list(self.structs.values()),
        )

    def known_keys(self, node: Mapping[str, Any], allowed: set[str], path: str) -> None:
        if not isinstance(node, dict):
            self.fail(path, "must be an object")
        for key in node:
            if key not in allowed:
                self.fail(f"{path}.{key}", "the format doesn't have this key")

    def text(self, node: Mapping[str, Any], key: str, path: str) -> str:
        value = node.get(key)
        if not isinstance(value, str) or not value:
            self.fail(f"{path}.{key}", "must be a non-empty string")
        return value

    def range(self, node: Mapping[str, Any], key: str, path: str) -> Versions:
        text = self.text(node, key, path)
        if text == "none":
            return NONE
        match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
        if not match:
            self.fail(f"{path}.{key}", f"{text!r} isn't a version range (write 3, 3-5, 3+ or none)")
        first = int(match[1])
        last = HIGHEST if match[2] else int(match[3] or first)
        if last < first:
            self.fail(f"{path}.{key}", f"{text!r} ends before it starts")
        return Versions(first, last)

    def fields(self, nodes: Any, within: Versions, path: str) -> list[Field]:
        if not isinstance(nodes, list):
            self.fail(path, "must be a list of fields")
        fields = [self.field(node, within, f"{path}[{i}]") for i, node in enumerate(nodes)]
        names: set[str] = set()
        for i, member in enumerate(fields):
            if member.attribute in names:
                self.fail(f"{path}[{i}].name", f"{member.name} is defined twice")
            names.add(member.attribute)
        tags = sorted(member.tag for member in fields if member.tag is not None)
        if tags != list(range(len(tags))):
            self.fail(path, f"tags must count up from 0 without a gap, not {tags}")
        return fields

    def field(self, node: Any, within: Versions, path: str) -> Field:
        self.known_keys(node, _FIELD_KEYS, path)
        name = self.text(node, "name", path)
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", name):
            self.fail(f"{path}.name", f"{name!r} must consist of letters and digits, in camel case")
        versions = self.range(node, "versions", path) & within
        tag, tagged = self.tag(node, versions, path)
        field_type = self.type(node, versions, path)
        nullable = (
            self.range(node, "nullableVersions", path) & versions if "nullableVersions" in node else NONE
        )
        if nullable and not field_type.is_array and field_type.name in FIXED_SIZES:
            self.fail(f"{path}.nullableVersions", f"{field_type} can't be null")
        flexible = self.range(node, "flexibleVersions", path) if "flexibleVersions" in node else self.flexible
        return Field(
            name=name,
            type=field_type,
            versions=versions,
            nullable=nullable,
            tagged=tagged,
            tag=tag,
            flexible=flexible,
            ignorable=node.get("ignorable") is True,
            is_map_key=node.get("mapKey") is True,
            default=self.default(node, field_type, nullable, versions, path),
            about=node.get("about", ""),
            entity=node.get("entityType", ""),
        )

    def tag(self, node: Mapping[str, Any], versions: Versions, path: str) -> tuple[int | None, Versions]:
        if ("tag" in node) != ("taggedVersions" in node):
            self.fail(path, "tag and taggedVersions go together")
        if "tag" not in node:
            return None, NONE
        tag = node["tag"]
        if not isinstance(tag, int) or tag < 0:
            self.fail(f"{path}.tag", "must be an integer from 0")
        tagged = self.range(node, "taggedVersions", path) & versions
        if not self.flexible.covers(tagged):
            self.fail(f"{path}.taggedVersions", "only flexible versions have tags")
        return tag, tagged

    def type(self, node: Mapping[str, Any], versions: Versions, path: str) -> Type:
        text = self.text(node, "type", path)
        name = text.removeprefix("[]")
        primitive = name in FIXED_SIZES or name in VARIABLE
        if "fields" in node:
            if primitive:
                self.fail(f"{path}.fields", f"{text} has no fields")
            struct = self.struct(node, name, versions, path)
        elif primitive:
            if name == "records" and text != name:
                self.fail(f"{path}.type", "there are no arrays of records")
            return Type(name, text != name)
        elif name in self.common:
            struct = self.common_struct(name, versions)
        else:
            self.fail(f"{path}.type", f"{name} is neither a type of the format nor a common struct")
        return Type(name, text != name, struct)

    def struct(self, node: Mapping[str, Any], name: str, versions: Versions, path: str) -> Struct:
        if name in self.structs or name in self.common:
            self.fail(f"{path}.type", f"struct {name} is defined twice")
        struct = Struct(name, versions, about=node.get("about", ""))
        struct.fields = self.fields(node["fields"], versions, f"{path}.fields")
        self.structs[name] = struct
        return struct

    def common_struct(self, name: str, versions: Versions) -> Struct:
        node, path = self.common[name]
        if name in self.open:
            self.fail(path, f"{name} contains itself")
        if name not in self.structs:
            self.open.append(name)
            reachable = self.range(node, "versions", path) & self.versions
            struct = Struct(name, reachable, about=node.get("about", ""))
            struct.fields = self.fields(node.get("fields"), reachable, f"{path}.fields")
            self.open.pop()
            self.structs[name] = struct
        if not self.structs[name].versions.covers(versions):
            self.fail(path, f"{name} is used in versions that it doesn't have")
        return self.structs[name]

    def default(
        self, node: Mapping[str, Any], type_: Type, nullable: Versions, versions: Versions, path: str
    ) -> Any:
        """The value of an absent field, as a Python object (for structs: None or the struct's own default)."""
        given = node.get("default")
        where = f"{path}.default"
        if given == "null":
            if not nullable.covers(versions):
                self.fail(where, "null, but the field isn't nullable in all its versions")
            return None
        if type_.is_array or type_.struct or type_.name in VARIABLE - {"string"}:
            if given not in (None, ""):
                self.fail(where, f"{type_} can only have the default null")
            if type_.name == "records":
                return None if nullable else b""
            return [] if type_.is_array else (b"" if type_.name == "bytes" else None)
        if type_.name == "string":
            return "" if given is None else str(given)
        if type_.name == "uuid":
            if given is not None:
                self.fail(where, "a uuid can't have a default other than zero")
            return bytes(16)
        return self.number(given, type_.name, where)

    def number(self, given: Any, type_name: str, where: str) -> Any:
        if type_name == "bool":
            if given in (None, "false", False):
                return False
            if given in ("true", True):
                return True
            self.fail(where, f"{given!r} isn't a bool")
        try:
            if type_name == "float64":
                return float(given or 0)
            value = int(str(given), 0) if given is not None else 0
        except ValueError:
            self.fail(where, f"{given!r} is no {type_name}")
        bits = INTEGER_BITS[type_name]
        low, high = (0, 2**bits - 1) if type_name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if not low <= value <= high:
            self.fail(where, f"{value} doesn't fit {type_name}")
        return value


def walk(struct: Struct) -> Iterator[tuple[str, Field]]:
    """Yield all fields in a struct, including nested ones, with their paths."""
    for member in struct.fields:
        yield member.name, member
        if member.type.struct:
            for path, inner in walk(member.type.struct):
                yield f"{member.name}.{path}", inner
