"""The schemas as documents: complete descriptions, matching pairs, one layout. Encoding is tested elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.kgen import format as layout
from tools.kgen.format import SCHEMAS, SchemaLayoutError, formatted, rewrite

CODES_FILE = SCHEMAS / "error_codes.json"
MESSAGE_FILES = sorted(set(SCHEMAS.glob("*.json")) - {CODES_FILE})
MESSAGES: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in MESSAGE_FILES
}
CODES: dict[str, list[dict[str, Any]]] = json.loads(CODES_FILE.read_text(encoding="utf-8"))
REQUESTS = [name for name, message in MESSAGES.items() if message["type"] == "request"]
SHARE_API_KEYS = {*range(76, 80), *range(83, 88), *range(90, 93)}

FIELD_LIMIT = 140
MESSAGE_LIMIT = 160
PLACEHOLDER = re.compile(r"\b(TODO|FIXME|XXX|TBD|lorem)\b|\.\.\.|…|[<>{}]")


def flattened(fields: list[dict[str, Any]], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for field in fields:
        here = f"{path}.{field['name']}"
        yield here, field
        yield from flattened(field.get("fields", []), here)


def all_parts(message: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from flattened(message["fields"], message["name"])
    for struct in message.get("commonStructs", []):
        yield f"{message['name']}.{struct['name']}", struct
        yield from flattened(struct["fields"], f"{message['name']}.{struct['name']}")


def faults(text: object, limit: int) -> Iterator[str]:
    if not isinstance(text, str) or not text:
        yield "no text"
        return
    if text != " ".join(text.split()):
        yield "stray white space"
    if not text.endswith("."):
        yield "no full stop"
    if len(text) > limit:
        yield f"{len(text)} characters, {limit} allowed"
    if found := PLACEHOLDER.search(text):
        yield f"looks unfinished: {found[0]!r}"


def test_share_group_protocol_is_complete() -> None:
    present = {MESSAGES[name]["apiKey"] for name in REQUESTS}
    assert present >= SHARE_API_KEYS


@pytest.mark.parametrize("name", MESSAGES)
def test_file_is_named_as_its_message(name: str) -> None:
    assert MESSAGES[name]["name"] == name


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_and_fields_have_complete_descriptions(name: str) -> None:
    message = MESSAGES[name]
    wrong = [f"{name}: {fault}" for fault in faults(message.get("about"), MESSAGE_LIMIT)]
    for path, part in all_parts(message):
        wrong += [f"{path}: {fault}" for fault in faults(part.get("about"), FIELD_LIMIT)]
    assert wrong == []


def test_message_descriptions_are_unique() -> None:
    assert len({message["about"] for message in MESSAGES.values()}) == len(MESSAGES)


@pytest.mark.parametrize("name", REQUESTS)
def test_request_has_a_response_of_the_same_versions(name: str) -> None:
    request, response = MESSAGES[name], MESSAGES[name.removesuffix("Request") + "Response"]
    assert response["type"] == "response"
    for key in ("apiKey", "validVersions", "flexibleVersions"):
        assert response[key] == request[key], key


def test_every_response_has_a_request() -> None:
    responses = [name for name, message in MESSAGES.items() if message["type"] == "response"]
    assert [name.removesuffix("Response") + "Request" for name in responses] == REQUESTS


def test_every_record_value_has_its_key() -> None:
    values = {m["apiKey"]: name for name, m in MESSAGES.items() if m["type"] == "coordinator-value"}
    keys = {m["apiKey"]: name for name, m in MESSAGES.items() if m["type"] == "coordinator-key"}
    assert {number: name.removesuffix("Value") + "Key" for number, name in values.items()} == keys


@pytest.mark.parametrize("name", REQUESTS)
def test_api_table_has_the_request_and_its_versions(name: str) -> None:
    request = MESSAGES[name]
    api = next(api for api in CODES["apis"] if api["key"] == request["apiKey"])
    lowest, _, highest = request["validVersions"].partition("-")
    assert f"{api['name']}Request" == name
    assert (api["min"], api["max"]) == (int(lowest), int(highest or lowest))


def test_api_keys_are_consecutive() -> None:
    assert [api["key"] for api in CODES["apis"]] == list(range(len(CODES["apis"])))


def test_error_codes_are_consecutive_and_names_unique() -> None:
    errors = CODES["errors"]
    assert [error["code"] for error in errors] == list(range(-1, len(errors) - 1))
    assert len({error["name"] for error in errors}) == len(errors)


def test_every_error_code_has_a_description() -> None:
    wrong = [
        f"{error['name']}: {fault}"
        for error in CODES["errors"]
        for fault in faults(error.get("about"), MESSAGE_LIMIT)
    ]
    assert wrong == []


@pytest.mark.parametrize("path", [*MESSAGE_FILES, CODES_FILE], ids=lambda path: path.stem)
def test_layout_is_canonical(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert formatted(text) == text, "run: python -m tools.kgen.format"


@pytest.mark.parametrize("path", [*MESSAGE_FILES, CODES_FILE], ids=lambda path: path.stem)
def test_layout_changes_no_value_and_works_on_any_layout(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    squeezed = json.dumps(json.loads(text), sort_keys=True)
    assert json.loads(formatted(squeezed)) == json.loads(text)
    assert formatted(squeezed) == text


def test_rewrite_returns_changed_files_and_then_changes_nothing(tmp_path: Path) -> None:
    tidy, untidy = tmp_path / "A.json", tmp_path / "B.json"
    message = '{"name": "B", "type": "data", "fields": []}'
    tidy.write_text(formatted(message), encoding="utf-8")
    untidy.write_text(message, encoding="utf-8")
    assert rewrite(tmp_path) == [untidy]
    assert untidy.read_text(encoding="utf-8") == tidy.read_text(encoding="utf-8")
    assert rewrite(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "one JSON object"),
        ('{"name": "A", "fieldz": []}', "A has unknown keys: fieldz"),
        ('{"name": "A", "fields": [{"name": "B", "version": "0+"}]}', "B has unknown keys: version"),
        ('{"name": "A", "name": "B"}', "given twice"),
        ('{"errors": [{"code": 0, "name": "NONE", "retryable": false}]}', "NONE has unknown keys: retryable"),
    ],
)
def test_unknown_schema_content_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "Broken.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SchemaLayoutError, match=complaint) as refusal:
        rewrite(tmp_path)
    assert str(refusal.value).startswith("Broken.json: ")
    assert path.read_text(encoding="utf-8") == text


def test_readme_explains_every_key_in_layout_order() -> None:
    readme = (SCHEMAS / "README.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `(\w+)` \|", readme, flags=re.MULTILINE)
    assert explained == [*layout.MESSAGE_KEYS, *layout.FIELD_KEYS]
