"""The mark of a query: written, read, and what remains owed according to it."""

from __future__ import annotations

import pytest

from kshare.admin.committed_texts import LONGEST
from kshare.spark.driver.offset_sets import spans_of
from kshare.spark.driver.query_mark import QueryMark, mark_group, member_of
from kshare.spark.ranges import RecordRange

ORDERS = "5a4c63cd-15e8-66cf-03b0-f7212ce31999"


def of(first: int, last: int, partition: int = 0) -> RecordRange:
    return RecordRange("orders", ORDERS, partition, first, last)


@pytest.mark.parametrize("owed", [(), (of(3, 9), of(20, 20), of(0, 4, 7)), None])
def test_a_mark_is_read_as_it_was_written(owed: tuple[RecordRange, ...] | None) -> None:
    mark = QueryMark(12, 13, owed, beat=1_700_000_000_000)
    found = QueryMark.from_text(mark.to_text())
    assert found is not None
    assert (found.begun, found.covered, found.beat) == (12, 13, 1_700_000_000_000)
    assert owed is None or sorted(found.owed or ()) == sorted(owed)


@pytest.mark.lengthy
def test_too_many_ranges_are_left_out() -> None:
    mark = QueryMark(1, 1, tuple(of(2 * at, 2 * at) for at in range(2_000)))
    assert len(mark.to_text()) <= LONGEST
    found = QueryMark.from_text(mark.to_text())
    assert found == QueryMark(1, 1, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        '{"kshare":9}',
        '{"kshare":1,"begun":1,"covered":1,"topics":{},"owed":[]}',
        '{"kshare":1,"begun":1,"covered":1,"beat":0,"topics":{},"owed":3}',
    ],
)
def test_other_texts_are_no_marks(text: str) -> None:
    assert QueryMark.from_text(text) is None


def test_what_was_accepted_is_not_owed() -> None:
    emitted = spans_of([of(0, 99), of(0, 99, 1)])
    mark = QueryMark(4, 5, (of(40, 200),))
    assert [(span.partition[1], span.first, span.last) for span in mark.still_owed(emitted, 5)] == [
        (0, 40, 99)
    ]
    assert mark.still_owed(emitted, 6) is emitted
    assert QueryMark(4, 5, None).still_owed(emitted, 5) is emitted


def test_the_group_names_the_query() -> None:
    name = mark_group("shipping", "M1")
    assert name == "shipping.kshare-spark.M1"
    assert member_of(name, "shipping") == "M1"
    assert member_of(name, "packing") is None
    assert member_of("shipping", "shipping") is None
