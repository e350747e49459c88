"""Schemas as a future Kafka release may have them: one more version, with every kind of field that it can add."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).parents[2] / "schemas"
APIS = (
    "DescribeCluster",
    "Fetch",
    "FindCoordinator",
    "Metadata",
    "Produce",
    "ShareAcknowledge",
    "ShareFetch",
    "ShareGroupHeartbeat",
)
"""What share consumers and producers send most often, and every API whose response contains addresses."""
GROWN = tuple(api + kind for api in APIS for kind in ("Request", "Response"))

NEW_TYPE = 5
"""The number of an acknowledgement type that isn't in KIP-932. It ends a delivery, as most do."""

Node = dict[str, Any]


def grown_codes() -> Node:
    """The file of codes, with one more acknowledgement type."""
    document: Node = json.loads((SCHEMAS / "error_codes.json").read_text(encoding="utf-8"))
    new = {"code": NEW_TYPE, "name": "SKIP", "final": True, "about": "The record isn't wanted."}
    return {**document, "acknowledgeTypes": [*document["acknowledgeTypes"], new]}


def grown_schema(name: str) -> Node:
    """The schema of one message, with one more version."""
    document: Node = deepcopy(json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8")))
    first, _, last = document["validVersions"].partition("-")
    new = int(last or first) + 1
    document["validVersions"] = f"{first}-{new}"
    _grow_arrays(document["fields"], new)
    document["fields"] += _additions(name, document["fields"], new)
    return document


def _grow_arrays(fields: list[Node], new: int) -> None:
    for field in fields:
        if "fields" not in field:
            continue
        _grow_arrays(field["fields"], new)
        if field["type"].startswith("[]") and field["versions"].endswith("+"):
            tag = sum("tag" in child for child in field["fields"])
            owner = field["type"].removeprefix("[]")
            field["fields"] += [
                _field("GrownCount", "uint16", new),
                _tagged("GrownHint", "int64", new, tag, default="-1"),
                _tagged("GrownTrail", f"{owner}Trail", new, tag + 1, fields=_trail(owner, new)),
            ]


def _additions(owner: str, beside: list[Node], new: int) -> list[Node]:
    """Plain fields, tagged fields, and a tagged struct that contains structs."""
    tag = sum("tag" in field for field in beside)
    return [
        _field("GrownShare", "float64", new),
        _field("GrownIsLast", "bool", new, default="true"),
        _field("GrownName", "string", new, nullableVersions=f"{new}+", default="null"),
        _tagged("GrownNote", "string", new, tag),
        _tagged("GrownMarks", "[]int8", new, tag + 1),
        _tagged("GrownId", "uuid", new, tag + 2),
        _tagged("GrownTrail", f"{owner}Trail", new, tag + 3, fields=_trail(owner, new)),
        _field("GrownPairs", "[]GrownPair", new, fields=_pair(new)),
    ]


def _trail(owner: str, new: int) -> list[Node]:
    cause = [_field("Code", "int16", new), _tagged("Detail", "bytes", new, 0)]
    step = [
        _field("Broker", "int32", new),
        _field("Cause", f"{owner}Cause", new, nullableVersions=f"{new}+", default="null", fields=cause),
    ]
    return [_field("Number", "uint32", new), _field("Steps", f"[]{owner}Step", new, fields=step)]


def _pair(new: int) -> list[Node]:
    """Only numbers: such an array is read and written at once."""
    return [_field("Left", "uint32", new), _field("Middle", "float64", new), _field("Right", "uint16", new)]


def _field(name: str, kind: str, since: int, **more: Any) -> Node:
    return {"name": name, "type": kind, "versions": f"{since}+", **more}


def _tagged(name: str, kind: str, since: int, tag: int, **more: Any) -> Node:
    return _field(name, kind, since, tag=tag, taggedVersions=f"{since}+", **more)
