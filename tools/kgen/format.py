"""Formats the files in `schemas/` in one canonical layout, so that diffs show only changed content.

Decides the order of keys, line breaks and indentation. Unknown keys are an error, because the generator would silently
ignore a misspelt key. Values aren't changed, and fields keep their order, which is that of the protocol.

    python -m tools.kgen.format     rewrites the files with another layout, and prints their names
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

SCHEMAS = Path(__file__).parents[2] / "schemas"
WIDTH = 120
MESSAGE_KEYS = (
    *("apiKey", "type", "listeners", "name", "validVersions", "flexibleVersions", "latestVersionUnstable"),
    *("about", "fields", "commonStructs"),
)
FIELD_KEYS = (
    *("name", "type", "versions", "nullableVersions", "tag", "taggedVersions", "flexibleVersions"),
    *("ignorable", "mapKey", "default", "entityType", "zeroCopy", "about", "fields"),
)
STRUCT_KEYS = ("name", "versions", "about", "fields")
CODES_KEYS = {
    "acknowledgeTypes": ("code", "name", "final", "about"),
    "errors": ("code", "name", "retriable", "about"),
    "apis": ("key", "name", "min", "max"),
}
"""The tables in the file of codes, and the keys of their rows."""
# These are on separate lines; everything else of an object is on one line.
OWN_LINE = frozenset({"about", "fields"})


class SchemaLayoutError(ValueError):
    """A schema can't be formatted: it isn't JSON, or has an unknown key or the same key twice."""


def formatted(text: str) -> str:
    """The canonical layout of a message schema or of the file of codes."""
    try:
        document = json.loads(text, object_pairs_hook=_object_without_duplicates)
    except json.JSONDecodeError as error:
        raise SchemaLayoutError(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise SchemaLayoutError("a schema is one JSON object")
    lines = _codes_lines(document) if "errors" in document else _message_lines(document)
    return "\n".join(lines) + "\n"


def rewrite(directory: Path) -> list[Path]:
    """Format every schema in `directory`. Returns the files that were changed."""
    changed = []
    for path in sorted(directory.glob("*.json")):
        before = path.read_text(encoding="utf-8")
        try:
            after = formatted(before)
        except SchemaLayoutError as error:
            raise SchemaLayoutError(f"{path.name}: {error}") from error
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(path)
    return changed


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> Json:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        raise SchemaLayoutError(f"a key is given twice among {keys}")
    return result


def _ordered(value: Json, keys: tuple[str, ...], where: str) -> Json:
    unknown = sorted(value.keys() - set(keys))
    if unknown:
        raise SchemaLayoutError(f"{where} has unknown keys: {', '.join(unknown)}")
    return {key: value[key] for key in keys if key in value}


def _message_lines(document: Json) -> Iterator[str]:
    message = _ordered(document, MESSAGE_KEYS, str(document.get("name", "the message")))
    yield "{"
    for is_last, (key, value) in _marking_last(message.items()):
        comma = "" if is_last else ","
        if key in ("fields", "commonStructs"):
            element_keys = FIELD_KEYS if key == "fields" else STRUCT_KEYS
            yield from _block(key, value, element_keys, "  ", comma)
        else:
            yield f"  {_pair(key, value)}{comma}"
    yield "}"


def _codes_lines(document: Json) -> Iterator[str]:
    codes = _ordered(document, tuple(CODES_KEYS), "the file of codes")
    yield "{"
    for is_last, (key, value) in _marking_last(codes.items()):
        yield from _block(key, value, CODES_KEYS[key], "  ", "" if is_last else ",")
    yield "}"


def _block(key: str, elements: list[Json], keys: tuple[str, ...], indent: str, comma: str) -> Iterator[str]:
    """`"key": [` … `]` with every element an object that opens on its own line."""
    if not elements:
        yield f'{indent}"{key}": []{comma}'
        return
    yield f'{indent}"{key}": ['
    for is_last, element in _marking_last(elements):
        yield from _element_lines(element, keys, indent + "  ", "" if is_last else ",")
    yield f"{indent}]{comma}"


def _element_lines(element: Json, keys: tuple[str, ...], indent: str, comma: str) -> Iterator[str]:
    """`{ facts,` then `  "about": …,` then the nested fields; the closing brace ends the last line."""
    ordered = _ordered(element, keys, str(element.get("name", "an element")))
    facts = [_pair(key, value) for key, value in ordered.items() if key not in OWN_LINE]
    parts = list(_wrapped(facts, indent))
    if "about" in ordered:
        parts.append(f"{indent}  {_pair('about', ordered['about'])}")
    parts[0] = f"{indent}{{ {parts[0].lstrip()}"
    yield from (f"{part}," for part in parts[:-1])
    yield f"{parts[-1]}," if "fields" in ordered else f"{parts[-1]} }}{comma}"
    if "fields" in ordered:
        yield from _block("fields", ordered["fields"], FIELD_KEYS, f"{indent}  ", f" }}{comma}")


def _wrapped(facts: list[str], indent: str) -> Iterator[str]:
    line = ""
    for fact in facts:
        if line and len(indent) + 2 + len(line) + len(", ") + len(fact) + len(",") > WIDTH:
            yield f"{indent}  {line}"
            line = fact
        else:
            line = f"{line}, {fact}" if line else fact
    yield f"{indent}  {line}"


def _pair(key: str, value: object) -> str:
    return f'"{key}": {json.dumps(value, ensure_ascii=False)}'


def _marking_last(items: Iterable[Any]) -> Iterator[tuple[bool, Any]]:
    everything = list(items)
    for position, item in enumerate(everything, start=1):
        yield position == len(everything), item


def main() -> None:
    for path in rewrite(SCHEMAS):
        print(f"rewritten: {path.name}")


if __name__ == "__main__":
    main()
