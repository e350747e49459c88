"""Records made for tests: they have what was asked for, and can be settled like any other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kshare.client.made_records import made_batch, made_record, settlement_of
from kshare.client.record import ShareRecord


def test_record_has_what_was_asked_for() -> None:
    record = made_record(
        "orders",
        None,
        key=b"k",
        headers=[("trace", b"1"), ("empty", None)],
        partition=3,
        offset=70,
        timestamp=1234,
        delivery_count=2,
    )
    assert (record.topic, record.partition, record.offset, record.timestamp) == ("orders", 3, 70, 1234)
    assert (record.key, record.value, record.delivery_count) == (b"k", None, 2)
    assert [*record.headers] == [("trace", b"1"), ("empty", None)]


def test_records_of_a_batch_follow_one_another() -> None:
    batch = made_batch("orders", [b"a", b"b"], keys=[b"1", None], offset=5)
    assert [(record.offset, record.key, record.value) for record in batch] == [
        (5, b"1", b"a"),
        (6, None, b"b"),
    ]


@pytest.mark.parametrize(
    ("settle", "expected"),
    [
        (ShareRecord.accept, "accept"),
        (ShareRecord.release, "release"),
        (ShareRecord.reject, "reject"),
        (ShareRecord.renew, None),
    ],
)
def test_settlement(settle: Callable[[ShareRecord], None], expected: str | None) -> None:
    first, second = made_batch("orders", [b"a", b"b"])
    settle(second)
    assert (settlement_of(first), settlement_of(second)) == (None, expected)
