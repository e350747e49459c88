"""Redrives of dead letters that were moved and not settled: of the letter and its copy, one is written."""

from __future__ import annotations

import pytest

from kshare.testing import Broker
from tests.cli.dlq.letters import GRAVE, letter, letters_of, redriven, values
from tests.cli.running import Kshare

ORIGIN = ("orders", 0, 9)


def test_a_letter_and_its_copy_are_redriven_once(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ORIGIN)
    letter(broker, b"x", ORIGIN, moved_from="0:0")
    letter(broker, b"x", ORIGIN, moved_from="0:1", moved_first="0:0")
    plan = run("dlq", "redrive", GRAVE, "--dry-run").out
    assert plan.count("a duplicate: settled without being written") == 2
    assert plan.endswith("1 dead letter would be redriven; nothing was changed\n")
    done = run("dlq", "redrive", GRAVE)
    assert done.code == 0
    assert done.out == (
        "1 dead letter redriven: 1 to orders\n2 duplicates settled: moves that were interrupted had left copies\n"
    )
    assert redriven(run)["redriven"] == 0
    assert values(broker, "orders") == [b"x"]


def test_a_letter_that_was_passed_over_is_a_duplicate_once_its_copy_is_redriven(
    broker: Broker, run: Kshare
) -> None:
    letter(broker, b"x", ORIGIN)
    letter(broker, b"y", ORIGIN)
    letter(broker, b"x", ORIGIN, moved_from="0:0")
    found = redriven(run, "--letter", "0:2")
    assert (found["redriven"], found["duplicates"], found["passed_over"]) == (1, 1, 1)
    assert [one["settled"] for one in letters_of(run)] == [True, False, True]


def test_other_contents_are_no_duplicate(broker: Broker, run: Kshare) -> None:
    """Headers of a mirrored topic name places of the topic that it mirrors."""
    letter(broker, b"x", ORIGIN)
    letter(broker, b"y", ORIGIN, moved_from="0:0")
    found = redriven(run)
    assert (found["redriven"], found["duplicates"]) == (2, 0)


@pytest.mark.lengthy
def test_a_copy_keeps_its_first_place(broker: Broker, run: Kshare) -> None:
    broker.set_group_config(f"kshare-dlq-{GRAVE}", {"share.delivery.count.limit": "5"})
    letter(broker, b"x", ORIGIN)
    for _ in range(6):
        redriven(run, "--source", "other")
    first, second, third = letters_of(run)
    assert [one["moved_to"] for one in (first, second, third)] == ["0:2", "0:2", None]
    assert (third["context"]["moved.from"], third["context"]["moved.first"]) == ("0:1", "0:0")
