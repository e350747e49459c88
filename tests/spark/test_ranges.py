"""The offset token: it survives any round trip, is compact, and errors describe what is damaged."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.spark.ranges import RecordRange, Token, TokenError

ORDERS = str(UUID(int=7))
REFUNDS = str(UUID(int=8))


@st.composite
def ranges(draw: st.DrawFn) -> tuple[RecordRange, ...]:
    found = []
    for topic, topic_id in (("orders", ORDERS), ("refunds", REFUNDS)):
        for partition in range(draw(st.integers(0, 3))):
            at = 0
            for gap, size in draw(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=4)):
                first = at + gap
                at = first + size
                found.append(RecordRange(topic, topic_id, partition, first, at - 1, draw(st.integers(1, 5))))
    return tuple(found)


@pytest.mark.lengthy
@given(st.integers(0, 2**40), ranges(), ranges(), st.booleans())
def test_a_token_survives_a_round_trip(
    batch: int, acquired: tuple[RecordRange, ...], owed: tuple[RecordRange, ...], by_row: bool
) -> None:
    token = Token(batch, acquired, owed, by_row, "AAECAwQFBgcICQoLDA0ODw", "shipping")
    text = json.dumps(token.to_json())
    again = Token.from_json(json.loads(text))
    assert again == token
    assert json.dumps(again.to_json()) == text


def test_a_range_takes_few_bytes() -> None:
    many = tuple(
        RecordRange("orders", ORDERS, 0, first, first + 499, 1) for first in range(0, 1_000_000, 500)
    )
    assert len(json.dumps(Token(1, many).to_json())) / len(many) < 20


@pytest.mark.parametrize(
    ("damaged", "says"),
    [
        ({"orders": {"0": 5}}, "another source"),
        ("nonsense", "another source"),
        ({"kshare": 3, "batch": 1}, "another version"),
        ({"kshare": 2, "batch": 1, "journal": {"journal": "j", "place": 3}}, "its journal is"),
        ({"kshare": 1, "batch": "one"}, "batch 'one'"),
        ({"kshare": 1, "batch": 1, "group": 7}, "group 7"),
        (
            {"kshare": 1, "batch": 1, "topics": {}, "acquired": {ORDERS: {"0": [1, 2, 3]}}},
            "acquired of topic",
        ),
        ({"kshare": 1, "batch": 1, "topics": {ORDERS: "o"}, "acquired": {ORDERS: {"0": [1, 2]}}}, r"o\[0\]"),
        ({"kshare": 1, "batch": 1, "topics": {ORDERS: "o"}, "owed": {ORDERS: {"x": [1, 2, 3]}}}, r"o\[x\]"),
        (
            {"kshare": 1, "batch": 1, "topics": {ORDERS: "o"}, "owed": {ORDERS: {"0": [1, 2, 1, 2, 1, 1]}}},
            "overlaps at offset 2",
        ),
    ],
)
def test_errors_describe_damaged_tokens(damaged: Any, says: str) -> None:
    with pytest.raises(TokenError, match=says):
        Token.from_json(damaged)
