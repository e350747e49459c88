"""Payloads: what each annotation makes of a value, and that errors never show the value."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Optional
from uuid import UUID

import msgspec
import pydantic
import pytest

from kshare import ConfigError
from kshare.worker.handlers.payloads import PayloadError, decoder_for

if TYPE_CHECKING:
    from fractions import Fraction


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
    price: Fraction


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
        ConfigError, match="handler ship: the annotations of Unresolved can't be evaluated: name 'Fraction'"
    ):
        decoder_for(Unresolved, "ship")


class Color(Enum):
    RED = "red"


FIELDS = [
    (object, b"[1]", [1]),
    (int | str, b'"x"', "x"),
    (int | str | None, b"null", None),
    (datetime, b'"2026-01-01T10:00:00+01:00"', datetime.fromisoformat("2026-01-01T10:00:00+01:00")),
    (date, b'"2026-01-01"', date(2026, 1, 1)),
    (Decimal, b"0.1", Decimal("0.1")),
    (Decimal | None, b'"12.50"', Decimal("12.50")),
    (UUID, b'"6f1f9d0e-1f0b-4f7e-9a56-9d1b7a0b7b11"', UUID("6f1f9d0e-1f0b-4f7e-9a56-9d1b7a0b7b11")),
    (Color, b'"red"', Color.RED),
    (Literal["a", 1], b"1", 1),
    (set[int], b"[1, 1, 2]", {1, 2}),
    (tuple[int, str], b'[1, "x"]', (1, "x")),
    (tuple[int, ...], b"[1, 2, 3]", (1, 2, 3)),
    (tuple, b'[1, "x"]', (1, "x")),
    (Item | dict, b'{"name": "x"}', Item("x")),
    (list[datetime], b'["2026-01-01"]', [datetime(2026, 1, 1)]),
]


@pytest.mark.parametrize(("annotation", "text", "expected"), FIELDS)
def test_fields_of_dataclasses(annotation: Any, text: bytes, expected: object) -> None:
    made = dataclasses.make_dataclass("Made", [("field", annotation)])
    found = decode(made, b'{"field": %s}' % text)
    assert found.field == expected
    assert type(found.field) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (datetime, b"1767225600"),
        (datetime, b'"yesterday"'),
        (Decimal, b'"much"'),
        (Decimal, b"true"),
        (UUID, b"7"),
        (Color, b'"blue"'),
        (Literal["a", 1], b"true"),
        (set[int], b'["x"]'),
        (tuple[int, int], b"[1, 2, 3]"),
        (tuple[int, int], b'[1, "x"]'),
        (int | str, b"1.5"),
    ],
)
def test_fields_of_dataclasses_that_do_not_fit(annotation: Any, text: bytes) -> None:
    made = dataclasses.make_dataclass("Made", [("field", annotation)])
    with pytest.raises(PayloadError, match="the value isn't Made"):
        decode(made, b'{"field": %s}' % text)


@pytest.mark.parametrize("annotation", [bytes, complex, list[complex], Callable[[], int]])
def test_fields_that_json_cannot_contain_are_refused(annotation: Any) -> None:
    made = dataclasses.make_dataclass("Made", [("field", annotation)])
    with pytest.raises(ConfigError, match="handler ship: JSON can't be converted to"):
        decoder_for(made, "ship")
