"""What the schema reader refuses, and how it reports the location."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tools.kgen.model import SchemaError, read_document, read_file, read_folder

GOOD: dict[str, Any] = {
    "apiKey": 900,
    "type": "request",
    "name": "ThingRequest",
    "validVersions": "0-3",
    "flexibleVersions": "2+",
    "commonStructs": [
        {"name": "Pair", "versions": "0+", "fields": [{"name": "A", "type": "int8", "versions": "0+"}]}
    ],
    "fields": [
        {"name": "Count", "type": "int32", "versions": "0+", "default": "-1"},
        {"name": "Pairs", "type": "[]Pair", "versions": "1+", "nullableVersions": "1+"},
        {"name": "Cluster", "type": "string", "versions": "2+", "tag": 0, "taggedVersions": "2+"},
    ],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """GOOD with the value at this path replaced, or removed if it is None."""
    document = copy.deepcopy(GOOD)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    node: Any = document
    for part in parents:
        node = node[part]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return document


def test_valid_schema_is_read() -> None:
    message = read_document(GOOD, "ThingRequest.json")
    assert [field.attribute for field in message.body.fields] == ["count", "pairs", "cluster"]
    assert message.body.fields[0].default == -1
    assert message.structs[0].name == "Pair"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("type", "question", "$.type: 'question' is none of"),
        ("apiKey", None, "$.apiKey: a request or response needs an integer"),
        ("validVersions", "3-0", "$.validVersions: '3-0' ends before it starts"),
        ("validVersions", "0+", "$.validVersions: must have a last version"),
        ("validVersions", "none", "$.validVersions: no version is valid"),
        ("flexibleVersions", "two", "$.flexibleVersions: 'two' isn't a version range"),
        ("colour", "red", "$.colour: the format doesn't have this key"),
        ("fields", {}, "$.fields: must be a list of fields"),
        ("fields/0/name", None, "$.fields[0].name: must be a non-empty string"),
        ("fields/0/name", "Two words", "$.fields[0].name: 'Two words' must consist of letters and digits"),
        ("fields/1/name", "Count", "$.fields[1].name: Count is defined twice"),
        (
            "fields/0/type",
            "int24",
            "$.fields[0].type: int24 is neither a type of the format nor a common struct",
        ),
        ("fields/0/type", "[]records", "$.fields[0].type: there are no arrays of records"),
        ("fields/0/nullableVersions", "0+", "$.fields[0].nullableVersions: int32 can't be null"),
        ("fields/0/default", "many", "$.fields[0].default: 'many' is no int32"),
        ("fields/0/default", "2147483648", "$.fields[0].default: 2147483648 doesn't fit int32"),
        (
            "fields/0/default",
            "null",
            "$.fields[0].default: null, but the field isn't nullable in all its versions",
        ),
        ("fields/1/default", "[]", "$.fields[1].default: []Pair can only have the default null"),
        ("fields/0/fields", [], "$.fields[0].fields: int32 has no fields"),
        ("fields/0/tag", 1, "$.fields[0]: tag and taggedVersions go together"),
        ("fields/2/tag", 1, "$.fields: tags must count up from 0 without a gap, not [1]"),
        ("fields/2/tag", -1, "$.fields[2].tag: must be an integer from 0"),
        ("fields/2/taggedVersions", "2+", None),
        ("flexibleVersions", "3+", "$.fields[2].taggedVersions: only flexible versions have tags"),
        ("fields/1", {"name": "X", "type": "Pair", "versions": "0+"}, None),
        ("fields/1", {"name": "X", "type": "Pear", "versions": "0+"}, "$.fields[1].type: Pear is neither"),
        ("fields/1/type", "[]int8", "$.commonStructs[0]: common struct Pair is used by no field"),
        (
            "commonStructs/0/versions",
            "2+",
            "$.commonStructs[0]: Pair is used in versions that it doesn't have",
        ),
        ("commonStructs/0/fields/0/type", "Pair", "$.commonStructs[0]: Pair contains itself"),
        ("fields/1/fields", [], "$.fields[1].type: struct Pair is defined twice"),
        ("fields/0/about", "How many.", None),
        ("fields/0/hint", "How many.", "$.fields[0].hint: the format doesn't have this key"),
    ],
)
def test_error_has_file_and_path(path: str, value: Any, message: str | None) -> None:
    document = changed(path, value)
    if message is None:
        read_document(document, "ThingRequest.json")
        return
    with pytest.raises(SchemaError) as caught:
        read_document(document, "ThingRequest.json")
    assert str(caught.value).startswith(f"ThingRequest.json: {message}")


def test_invalid_json_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "ThingRequest.json"
    path.write_text('{"name":\n oops}')
    with pytest.raises(SchemaError, match=r"^ThingRequest.json: line 2: not JSON"):
        read_file(path)


def test_file_must_have_the_name_of_its_message(tmp_path: Path) -> None:
    path = tmp_path / "OtherRequest.json"
    path.write_text(json.dumps(GOOD))
    with pytest.raises(
        SchemaError, match=r"^OtherRequest.json: \$.name: is 'ThingRequest', must equal the file's name"
    ):
        read_file(path)


def test_request_without_response_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ThingRequest.json").write_text(json.dumps(GOOD))
    with pytest.raises(SchemaError, match="ThingRequest has no corresponding ThingResponse here"):
        read_folder(tmp_path)


def test_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="has no schema"):
        read_folder(tmp_path)
