"""Who gets the records of a redrive: what is said before it."""

from __future__ import annotations

import pytest

from kshare.dead_letters.other_readers import OtherReaders, Reads, other_readers, sentences

GENERAL = "get these records, also consumer groups"
PACKERS = ("orders", "packers")


@pytest.mark.parametrize(
    ("reads", "written", "others"),
    [
        ({}, [], {}),
        ({"packers": {"orders"}}, [PACKERS, PACKERS], {"orders": ()}),
        ({"packers": {"orders"}, "audit": {"orders", "x"}, "y": {"x"}}, [PACKERS], {"orders": ("audit",)}),
        ({"packers": {"orders"}}, [("orders", None)], {"orders": ("packers",)}),
        (
            {"packers": {"orders"}, "audit": {"orders"}},
            [PACKERS, ("orders", "audit"), ("parcels", "couriers")],
            {"orders": ("audit", "packers"), "parcels": ()},
        ),
    ],
    ids=["nothing", "nobody else", "another", "no group", "letters of several groups"],
)
def test_others_that_read_the_topic(
    reads: Reads, written: list[tuple[str, str | None]], others: OtherReaders
) -> None:
    assert other_readers(reads, written) == others


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({}, []),
        ({"a": (), "b": ()}, [f"all groups that read a, b {GENERAL}"]),
        (
            {"a": (), "b": ("x", "y")},
            [
                f"all groups that read b {GENERAL}; other share groups: x, y",
                f"all groups that read a {GENERAL}",
            ],
        ),
        (
            {"a": tuple("abcdefg")},
            [f"all groups that read a {GENERAL}; other share groups: a, b, c, d, e and 2 others"],
        ),
    ],
)
def test_a_few_are_named(others: OtherReaders, said: list[str]) -> None:
    assert [*sentences(others)] == said
