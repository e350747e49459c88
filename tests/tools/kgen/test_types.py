"""A message with every type and feature of the schema format: generated, loaded, encoded and decoded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from kshare.errors import DecodeError, EncodeError
from kshare.protocol import json_form
from tools.kgen import codec
from tools.kgen.model import SchemaError, read_document

NAME = "kshare.protocol.messages.everything"
_ALL = "0+"


def _field(name: str, kind: str, versions: str = _ALL, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": versions, **more}


EVERYTHING = {
    "type": "data",
    "name": "Everything",
    "validVersions": "0-4",
    "flexibleVersions": "2+",
    "commonStructs": [
        {"name": "Pair", "versions": "0+", "fields": [_field("Left", "int16"), _field("Right", "uint16")]}
    ],
    "fields": [
        _field("Yes", "bool", default="true"),
        _field("Tiny", "int8", default="-7"),
        _field("Small", "int16"),
        _field("SmallPositive", "uint16", default="65535"),
        _field("Whole", "int32", default="0x7fffffff"),
        _field("WholePositive", "uint32", default="4294967295"),
        _field("Large", "int64", default="-9223372036854775808"),
        _field("Real", "float64", default="0.5"),
        _field("Id", "uuid"),
        _field("Text", "string", default="hi"),
        _field("MaybeText", "string", nullableVersions="1+", default=""),
        _field("Blob", "bytes"),
        _field("MaybeBlob", "bytes", "1+", nullableVersions="1+", default="null"),
        _field("Batches", "records", nullableVersions="0+"),
        _field("Numbers", "[]int64", nullableVersions="1+"),
        _field("Octets", "[]int8"),
        _field("Shorts", "[]uint16"),
        _field("Reals", "[]float64"),
        _field("Texts", "[]string"),
        _field("Ids", "[]uuid", "1+", ignorable=True),
        _field("Blobs", "[]bytes"),
        _field("Pairs", "[]Pair"),
        _field("OnePair", "Pair"),
        _field("MaybePair", "Pair", "1+", nullableVersions="1+", default="null"),
        _field(
            "Keyed",
            "[]Keyed",
            fields=[
                _field("Host", "string", mapKey=True),
                _field("Port", "int32", mapKey=True),
                _field("Note", "string", "3+", nullableVersions="3+", tag=0, taggedVersions="3+"),
            ],
        ),
        _field("OnlyOnce", "int32", "1-2", default="5"),
        _field("Forgettable", "int32", "3+", ignorable=True),
        _field("TagText", "string", "2+", nullableVersions="2+", default="null", tag=0, taggedVersions="2+"),
        _field("TagNumber", "int64", "3+", default="-1", tag=1, taggedVersions="3+", ignorable=True),
        _field("TagPair", "Pair", "3+", tag=2, taggedVersions="3+"),
        _field("TagPairs", "[]Pair", "4+", tag=3, taggedVersions="4+"),
        _field("TagId", "uuid", "4+", tag=4, taggedVersions="4+"),
        _field("TagFlag", "bool", "4+", tag=5, taggedVersions="4+"),
        _field(
            "TagMaybePair", "Pair", "4+", nullableVersions="4+", default="null", tag=6, taggedVersions="4+"
        ),
    ],
}


@pytest.fixture(scope="module")
def module() -> Iterator[ModuleType]:
    loaded = ModuleType(NAME)
    sys.modules[NAME] = loaded
    source = codec.emit_message(read_document(EVERYTHING, "Everything.json"))
    exec(compile(source, "everything.py", "exec"), loaded.__dict__)
    yield loaded
    del sys.modules[NAME]


def filled(module: ModuleType, version: int) -> Any:
    """A message in which every field of the version differs from its default."""
    pair = module.Pair(-2, 65534)
    message = module.Everything(
        yes=False,
        tiny=-128,
        small=-32768,
        small_positive=40000,
        whole=-1,
        whole_positive=3_000_000_000,
        large=2**63 - 1,
        real=-1e300,
        id=bytes(range(16)),
        text="grüße",
        maybe_text=None if version else "x",
        blob=b"\x00\xff",
        batches=b"batch",
        numbers=None if version else [-1, 2**40],
        octets=b"\x00\x7f\x80\xff",
        shorts=[0, 65535],
        reals=[0.25, -3.5],
        texts=["", "東京"],
        blobs=[b"", b"b"],
        pairs=[pair, module.Pair(1, 2)],
        one_pair=pair,
        keyed=[module.Keyed("a", 1), module.Keyed("b", 2)],
    )
    if version >= 1:
        message.maybe_blob, message.ids, message.maybe_pair = b"", [b"\x01" * 16], pair
    if 1 <= version <= 2:
        message.only_once = 6
    if version >= 2:
        message.tag_text = "tagged"
    if version >= 3:
        message.forgettable, message.tag_number, message.tag_pair = 8, 9, pair
        message.keyed[0].note = "n"
    if version >= 4:
        message.tag_pairs, message.tag_id, message.tag_flag, message.tag_maybe_pair = (
            [pair],
            b"\x02" * 16,
            True,
            pair,
        )
    return message


@pytest.mark.parametrize("version", range(5))
def test_round_trip_of_every_type(module: ModuleType, version: int) -> None:
    message = filled(module, version)
    assert module.Everything.decode(message.encode(version), version) == message
    form = json_form.to_json(message, version)
    assert json_form.from_json(module.Everything, version, form) == message


@pytest.mark.parametrize("version", range(5))
def test_round_trip_of_defaults(module: ModuleType, version: int) -> None:
    message = module.Everything()
    assert module.Everything.decode(message.encode(version), version) == message


@pytest.mark.parametrize("version", range(5))
def test_truncation_is_always_an_error(module: ModuleType, version: int) -> None:
    data = filled(module, version).encode(version)
    for length in range(len(data)):
        with pytest.raises(DecodeError) as caught:
            module.Everything.decode(data[:length], version)
        assert caught.value.path
        assert caught.value.path != "Everything"
        assert caught.value.offset <= length


@pytest.mark.parametrize(
    ("attribute", "value", "version", "path"),
    [
        ("only_once", 6, 3, "onlyOnce"),
        ("only_once", 6, 0, "onlyOnce"),
        ("maybe_blob", b"", 0, "maybeBlob"),
        ("tag_text", "x", 1, "tagText"),
        ("tag_pair", None, 3, "tagPair"),
        ("maybe_text", None, 0, "maybeText"),
        ("small_positive", -1, 0, "smallPositive"),
        ("whole_positive", 2**32, 0, "wholePositive"),
        ("tiny", 128, 0, "tiny"),
        ("id", b"", 0, "id"),
        ("numbers", [2**63], 0, r"numbers\[0\]"),
        ("texts", ["a", None], 0, r"texts\[1\]"),
        ("octets", [1], 0, "octets"),
    ],
)
def test_unencodable_value_is_named(
    module: ModuleType, attribute: str, value: Any, version: int, path: str
) -> None:
    message = filled(module, version)
    setattr(message, attribute, value)
    with pytest.raises(EncodeError, match=f"^{path}: "):
        message.encode(version)


@pytest.mark.parametrize(("attribute", "value", "version"), [("forgettable", 8, 2), ("tag_number", 9, 2)])
def test_ignorable_fields_are_omitted(module: ModuleType, attribute: str, value: Any, version: int) -> None:
    message = filled(module, version)
    without = message.encode(version)
    setattr(message, attribute, value)
    assert message.encode(version) == without


def test_map_keys_of_several_fields(module: ModuleType) -> None:
    assert module.Keyed("a", 1).map_key == ("a", 1)


def test_names_that_the_generated_code_needs_are_refused() -> None:
    schema = EVERYTHING | {"fields": [_field("Version", "int8"), _field("OnePair", "Pair")]}
    with pytest.raises(
        SchemaError, match=r"Everything.json: Everything.Version: the generated code uses this name itself"
    ):
        codec.emit_message(read_document(schema, "Everything.json"))
