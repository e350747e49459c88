"""Who gets records that are written to a topic again."""

from __future__ import annotations

import pytest

from kshare.admin.results import Member
from kshare.monitor.snapshot import GroupReading, PartitionReading, Snapshot
from kshare.monitor.topic_readers import other_readers


def with_members(name: str, *topics: str) -> GroupReading:
    return GroupReading(name, "Stable", (Member("id", "client", "host", None, 1, topics, ()),))


def without_members(name: str, topic: str) -> GroupReading:
    return GroupReading(name, "Empty", (), (PartitionReading(name, topic, 0, 0, 0, 0, 0, 0, None),))


def said(groups: list[GroupReading], *records: tuple[str, str]) -> list[str]:
    return [*other_readers(Snapshot(0.0, 0.0, tuple(groups)), records)]


PACKERS, INVOICES = with_members("packers", "orders"), without_members("invoices", "orders")


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ([INVOICES], "orders is also read by share group invoices: it gets what is written to it as well"),
        (
            [INVOICES, with_members("audit", "orders", "parcels")],
            "orders is also read by share groups audit and invoices: they get what is written to it as well",
        ),
        (
            [without_members(f"g{number}", "orders") for number in range(7)],
            "orders is also read by share groups g0, g1, g2, g3, g4 and 2 others: "
            "they get what is written to it as well",
        ),
    ],
)
def test_others_that_read_the_topic_are_named(groups: list[GroupReading], sentence: str) -> None:
    assert said([PACKERS, *groups], ("orders", "packers"), ("orders", "packers")) == [sentence]


@pytest.mark.parametrize(
    "other",
    [
        with_members("couriers", "parcels"),
        without_members("couriers", "parcels"),
        without_members("kshare-dlq-orders", "orders"),
        GroupReading("couriers", "Stable", with_members("", "parcels").members, INVOICES.partitions),
    ],
    ids=["another topic", "another topic before", "keeps track of dead letters", "no longer subscribed"],
)
def test_nothing_is_said_of_groups_that_do_not_get_the_records(other: GroupReading) -> None:
    assert said([PACKERS, other], ("orders", "packers")) == []


def test_the_group_need_not_read_the_topic_itself() -> None:
    assert said([PACKERS, INVOICES], ("orders", "couriers")) == [
        "orders is read by share groups invoices and packers: they get what is written to it"
    ]


def test_dead_letters_of_several_groups() -> None:
    both = [("orders", "packers"), ("orders", "invoices"), ("parcels", "couriers")]
    assert said([PACKERS, INVOICES], *both) == [
        "orders is read by share groups invoices and packers: they get what is written to it, whichever group had "
        "given it up"
    ]
