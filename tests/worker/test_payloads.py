"""Payloads: what each annotation makes of a value, and that errors never show the value."""

from __future__ import annotations

import dataclasses
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional

import msgspec
import pydantic
import pytest

from kshare import ConfigError
from kshare.worker.payloads import PayloadError, decoder_for

if TYPE_CHECKING:
    from decimal import Decimal


@dataclass
class Item:
    name: str
    price: float = 0.0


@dataclass
class Order:
    number: int
    items: list[Item]
    best: Item | None = None
    gifts: dict[str, Item] = field(default_factory=dict)
    tags: list[str] | None = None
    note: Any = None


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


@dataclass
class Computed:
    number: int
    double: int = field(init=False)

    def __post_init__(self) -> None:
        self.double = 2 * self.number


@dataclass
class Unresolved:
    price: Decimal


class Struct(msgspec.Struct):
    number: int


class Model(pydantic.BaseModel):
    number: int


def decode(annotation: Any, value: bytes | None) -> Any:
    convert = decoder_for(annotation, "ship")
    assert convert is not None
    return convert(value)


@pytest.mark.parametrize("annotation", [bytes, Any, bytes | None])
def test_bytes_are_handed_over_as_they_are(annotation: Any) -> None:
    assert decoder_for(annotation, "ship") is None


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (str, "straße".encode(), "straße"),
        (str, b"", ""),
        (str | None, None, None),
        (Optional[str], None, None),  # noqa: UP045  people still write it
        (dict, b'{"a": [1]}', {"a": [1]}),
        (dict[str, Any], b'{"a": 1}', {"a": 1}),
        (dict[str, Item], b'{"a": {"name": "x"}}', {"a": Item("x")}),
        (list, b"[1, null]", [1, None]),
        (list[int], b"[1, 2]", [1, 2]),
        (list[Item], b'[{"name": "x", "price": 1}]', [Item("x", 1.0)]),
        (tuple, b"[1, 2]", (1, 2)),
        (tuple[int, ...], b"[1, 2]", (1, 2)),
        (int, b"12", 12),
        (float, b"1", 1.0),
        (float, b"1.5", 1.5),
        (bool, b"true", True),
        (int | None, b"7", 7),
        (Item, b'{"name": "x", "price": 2, "unknown": 1}', Item("x", 2.0)),
        (Item | None, None, None),
        (Computed, b'{"number": 4, "double": 1}', Computed(4)),
        (Tree, b'{"name": "a", "children": [{"name": "b"}]}', Tree("a", [Tree("b")])),
        (Struct, b'{"number": 4}', Struct(4)),
        (list[Struct], b'[{"number": 4}]', [Struct(4)]),
        (Struct | None, None, None),
        (Model, b'{"number": 4}', Model(number=4)),
        (list[Model], b'[{"number": 4}]', [Model(number=4)]),
    ],
    ids=str,
)
def test_values(annotation: Any, value: bytes | None, expected: Any) -> None:
    found = decode(annotation, value)
    assert found == expected
    assert type(found) is type(expected)


def test_nested_dataclasses() -> None:
    value = b'{"number": 1, "items": [{"name": "x"}], "best": {"name": "y"}, "gifts": {"z": {"name": "z"}}}'
    assert decode(Order, value) == Order(1, [Item("x")], Item("y"), {"z": Item("z")})
    assert decode(Order, b'{"number": 1, "items": [], "best": null, "tags": ["a"]}') == Order(
        1, [], tags=["a"]
    )


SECRET = "hunter2"


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (str, b"\xffhunter2", "the value isn't text"),
        (dict, b"hunter2", "the value isn't JSON dict"),
        (dict, b'["hunter2"]', "the value isn't JSON dict"),
        (dict, b"[" * 100_000, "the value isn't JSON dict"),
        (list[int], b'["hunter2"]', "the value isn't JSON list"),
        (int, b'"hunter2"', "the value isn't JSON int"),
        (int, b"true", "the value isn't JSON int"),
        (int, b"1.0", "the value isn't JSON int"),
        (bool, b"1", "the value isn't JSON bool"),
        (Item, b'{"name": "hunter2", "price": "hunter2"}', "the value isn't Item"),
        (Item, b'{"hunter2": 1}', "the value isn't Item"),
        (Item, b'"hunter2"', "the value isn't Item"),
        (Item, b"null", "the value isn't Item"),
        (Order, b'{"number": 1, "items": "hunter2"}', "the value isn't Order"),
        (Order, b'{"number": 1, "items": [1]}', "the value isn't Order"),
        (Order, b'{"number": 1, "items": [], "gifts": ["hunter2"]}', "the value isn't Order"),
        (Order, b'{"number": 1, "items": [], "tags": "hunter2"}', "the value isn't Order"),
        (Order, b'{"number": true, "items": []}', "the value isn't Order"),
        (Struct, b'{"number": "hunter2"}', "the value isn't Struct"),
        (Model, b'{"number": "hunter2"}', "the value isn't Model"),
        (Item, None, r"the record has no value, and the handler's payload is Item: write `Item \| None`"),
        (str, None, r"the record has no value, and the handler's payload is str: write `str \| None`"),
        (dict, None, r"the record has no value, and the handler's payload is dict: write `dict \| None`"),
    ],
)
def test_errors_say_what_was_expected_and_never_show_the_value(
    annotation: Any, value: bytes | None, message: str
) -> None:
    with pytest.raises(PayloadError, match=message) as caught:
        decode(annotation, value)
    assert SECRET not in "".join(traceback.format_exception(caught.value)).partition("kshare.worker")[2]
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("annotation", [object, complex, int | str, "Order", set[int], 5, str | int | None])
def test_unknown_types_are_refused(annotation: Any) -> None:
    with pytest.raises(ConfigError, match="handler ship: payloads can't be converted to"):
        decoder_for(annotation, "ship")


def test_dataclass_whose_annotations_are_unknown_is_refused_when_the_handler_is_declared() -> None:
    """Otherwise each of its records would become a dead letter."""
    with pytest.raises(
        ConfigError, match="handler ship: the annotations of Unresolved can't be evaluated: name 'Decimal'"
    ):
        decoder_for(Unresolved, "ship")


def test_fields_of_other_types_stay_what_json_makes_of_them() -> None:
    made = dataclasses.make_dataclass("Made", [("when", object), ("kind", "int | str")])
    found = decode(made, b'{"when": "2026-01-01", "kind": "x"}')
    assert (found.when, found.kind) == ("2026-01-01", "x")
