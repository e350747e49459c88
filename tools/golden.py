"""Writes the golden vectors: messages as JSON, and as the bytes that Kafka's own classes encode them to.

`python -m tools.golden` rewrites tests/golden/*.json. The values are counted, not random, so the same schemas always
give the same files. Decides which values to use. Kafka's Java code decides which bytes are right.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.helpers.judge import Case, Judge, open_judge
from tests.helpers.structure import Structure, parse, structure, versions

_ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = _ROOT / "schemas"
GOLDEN = _ROOT / "tests" / "golden"
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_WORDS = ("orders", "\u6ce8\u6587", "\u00fcber-\U0001f5fc", "x" * 130)


def main() -> None:
    """Write all files, and remove those of messages that no longer exist."""
    GOLDEN.mkdir(exist_ok=True)
    with open_judge() as judge:
        files = make_files(judge)
    for stale in {path.name for path in GOLDEN.glob("*.json")} - files.keys():
        (GOLDEN / stale).unlink()
    for name, text in files.items():
        (GOLDEN / name).write_text(text, encoding="utf-8")
    print(f"{len(files)} files, {sum(map(len, files.values()))} characters, in {GOLDEN.relative_to(_ROOT)}")


def make_files(judge: Judge) -> dict[str, str]:
    """The texts of all golden files by file name."""
    cases = [case for path in sorted(SCHEMAS.glob("[A-Z]*.json")) for case in _cases(path)]
    datas = judge.encode_all(cases)
    decoded = judge.decode_all(
        [Case(case.name, case.version, data) for case, data in zip(cases, datas, strict=True)]
    )
    lines: dict[str, list[str]] = {}
    for case, data, form in zip(cases, datas, decoded, strict=True):
        if form != case.value:
            raise ValueError(f"{case.name} version {case.version}: Java reads {form}, not {case.value}")
        vector = {"version": case.version, "json": case.value, "hex": data.hex()}
        text = json.dumps(vector, ensure_ascii=False, separators=(",", ":"))
        lines.setdefault(f"{case.name}.json", []).append(text)
    return {name: "[\n" + ",\n".join(texts) + "\n]\n" for name, texts in lines.items()}


def _cases(schema: Path) -> Iterator[Case]:
    document = parse(schema.read_text(encoding="utf-8"))
    for version in versions(document["validVersions"]):
        fields = structure(document, version)["fields"]
        yield Case(document["name"], version, _Filled().fields(fields))
        yield Case(document["name"], version, _bare(fields))


class _Filled:
    """Sets all fields, to different values, so that a swap of two fields is detected."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def fields(self, fields: list[Structure], depth: int = 0) -> dict[str, Any]:
        return {_json_name(field): self._value(field, depth) for field in fields}

    def _value(self, field: Structure, depth: int) -> Any:
        if not field["type"].startswith("[]"):
            return self._one(field, field["type"], depth)
        # Two elements further down would double the files with every level.
        count = 1 if depth and field["fields"] else 2
        return [self._one(field, field["type"].removeprefix("[]"), depth + 1) for _ in range(count)]

    def _one(self, field: Structure, kind: str, depth: int) -> Any:
        if field["fields"] is not None:
            return self.fields(field["fields"], depth)
        number = next(self._numbers)
        if kind in _BITS:
            # The multiplier fills every byte of the widest type; signs alternate.
            top = 2 ** (_BITS[kind] - 1) - 1
            return (-1) ** number * (number * 0x0123456789ABCDEF % top or 1)
        match kind:
            case "bool":
                return field["default"] != "true"
            case "uint16" | "uint32":
                return 2 ** int(kind[4:]) - number
            case "float64":
                return number + 0.5
            case "string":
                return f"{_WORDS[number % len(_WORDS)]}{number}"
            case "uuid":
                return base64.urlsafe_b64encode(_run_of_bytes(number, 16)).decode().rstrip("=")
            case "bytes" | "records":
                return base64.b64encode(_run_of_bytes(number, 5)).decode()
        raise ValueError(f"{field['name']}: unknown type {kind}")


def _run_of_bytes(first: int, count: int) -> bytes:
    return bytes((first + index) % 256 for index in range(count))


def _bare(fields: list[Structure]) -> dict[str, Any]:
    """The least that the version allows: null or empty, the lowest numbers, no tagged fields."""
    return {_json_name(field): _least(field) for field in fields if field["tag"] is None}


def _least(field: Structure) -> Any:
    kind = field["type"]
    if field["nullable"]:
        return None
    if kind.startswith("[]"):
        return []
    if field["fields"] is not None:
        return _bare(field["fields"])
    if kind in _BITS:
        return -(2 ** (_BITS[kind] - 1))
    return {"bool": False, "float64": -0.5, "string": "", "uuid": "A" * 22, "bytes": "", "records": ""}.get(
        kind, 0
    )


def _json_name(field: Structure) -> str:
    name: str = field["name"]
    return name[0].lower() + name[1:]


if __name__ == "__main__":
    main()
