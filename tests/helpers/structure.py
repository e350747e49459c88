"""The structure of a message definition in one version, as plain values that can be compared.

Parses both Kafka's files and ours, without the generator's parser, so that a bug in the generator can't hide one in a
schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]
Structure = dict[str, Any]

_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')
_ZEROS = {"bool": "false", "float64": "0.0", "uuid": "zero"}


def parse(text: str) -> Document:
    """Parse JSON with comments, as Kafka uses it."""
    document: Document = json.loads(_STRING_OR_COMMENT.sub(lambda found: found[1] or "", text))
    return document


def versions(text: str) -> range:
    """Parse a range of versions: `2-5`, `3`, `1+` or `none`."""
    if text == "none":
        return range(0)
    first, separator, last = text.partition("-")
    if text.endswith("+"):
        return range(int(text[:-1]), 32768)
    return range(int(first), int(last if separator else first) + 1)


def structure(document: Document, version: int) -> Structure:
    """The message in this version, without descriptions."""
    commons = {struct["name"]: struct["fields"] for struct in document.get("commonStructs", [])}
    flexible = versions(document["flexibleVersions"])
    return {
        "name": document["name"],
        "type": document["type"],
        "apiKey": document.get("apiKey"),
        "flexible": version in flexible,
        "fields": list(_fields(document["fields"], commons, flexible, version)),
    }


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """The differences between two structures, one line each: path, ours, theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from differences(ours.get(key), theirs.get(key), f"{path}.{key}" if path else key)
    elif isinstance(ours, list) and isinstance(theirs, list):
        yield from _field_differences(_by_name(ours), _by_name(theirs), path)
    elif ours != theirs:
        yield f"{path}: {ours!r} != {theirs!r}"


def _fields(
    fields: list[Document], commons: Mapping[str, list[Document]], flexible: range, version: int
) -> Iterator[Structure]:
    for field in fields:
        if version not in versions(field["versions"]):
            continue
        element = field["type"].removeprefix("[]")
        inner = field.get("fields") or commons.get(element)
        own_flexible = versions(field["flexibleVersions"]) if "flexibleVersions" in field else flexible
        is_tagged = version in versions(field.get("taggedVersions", "none"))
        yield {
            "name": field["name"],
            "type": field["type"],
            "nullable": version in versions(field.get("nullableVersions", "none")),
            "default": _default(field),
            "tag": field["tag"] if is_tagged else None,
            "mapKey": _flag(field, "mapKey"),
            "ignorable": _flag(field, "ignorable"),
            "flexible": version in own_flexible,
            "entityType": field.get("entityType"),
            "fields": list(_fields(inner, commons, flexible, version)) if inner else None,
        }


def _flag(field: Document, key: str) -> bool:
    """Kafka's files have some booleans as text."""
    return field.get(key) in (True, "true")


def _default(field: Document) -> str:
    """Normalize defaults: Kafka's files have numbers as numbers, as text, and in hexadecimal."""
    kind = field["type"]
    given = field.get("default")
    if given == "null":
        return "null"
    if kind.startswith("[]") or kind[0].isupper() or kind in ("bytes", "records"):
        return "empty" if given in (None, "") else str(given)
    if kind == "string":
        return f"text {given or ''}"
    if given is None:
        return _ZEROS.get(kind, "0")
    if kind == "bool":
        return str(given).lower()
    return str(float(given)) if kind == "float64" else str(int(str(given), 0))


def _by_name(fields: list[Structure]) -> dict[str, Structure]:
    return {field["name"]: field for field in fields}


def _field_differences(
    ours: Mapping[str, Structure], theirs: Mapping[str, Structure], path: str
) -> Iterator[str]:
    shared = [name for name in ours if name in theirs]
    for name in ours:
        if name not in theirs:
            yield f"{path}.{name}: only ours"
    for name in theirs:
        if name not in ours:
            yield f"{path}.{name}: only theirs"
    if shared != [name for name in theirs if name in ours]:
        yield f"{path}: another order"
    for name in shared:
        yield from differences(ours[name], theirs[name], f"{path}.{name}")
