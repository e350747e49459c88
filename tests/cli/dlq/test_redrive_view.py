"""Redrives of dead letters that were moved and not settled: of the letter and its copy, one is written."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack

import pytest

from kshare import sync
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ListGroupsRequest,
)
from kshare.testing import Broker
from tests.cli.dlq.letters import GRAVE, GROUP, letter, letters_of, redriven, values
from tests.cli.running import DEADLINE, Kshare
from tests.helpers.reading_groups import make_reader

ORIGIN = ("orders", 0, 9)


@pytest.mark.lengthy
def test_a_letter_and_its_copy_are_redriven_once(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ORIGIN)
    letter(broker, b"x", ORIGIN, moved_from="0:0")
    letter(broker, b"x", ORIGIN, moved_from="0:1", moved_first="0:0")
    plan = run("dlq", "redrive", GRAVE, "--dry-run").out
    assert plan.count("a duplicate: settled without being written") == 2
    assert "1 dead letter would be redriven: 1 to orders; nothing was changed\n" in plan
    done = run("dlq", "redrive", GRAVE)
    assert done.code == 0
    assert done.out == (
        "1 dead letter redriven: 1 to orders\n2 duplicates settled: moves that were interrupted had left copies\n"
    )
    assert redriven(run)["redriven"] == 0
    assert values(broker, "orders") == [b"x"]


@pytest.mark.lengthy
def test_a_letter_that_was_passed_over_is_a_duplicate_once_its_copy_is_redriven(
    broker: Broker, run: Kshare
) -> None:
    letter(broker, b"x", ORIGIN)
    letter(broker, b"y", ORIGIN)
    letter(broker, b"x", ORIGIN, moved_from="0:0")
    found = redriven(run, "--letter", "0:2")
    assert (found["redriven"], found["duplicates"], found["passed_over"]) == (1, 1, 1)
    assert [letter["settled"] for letter in letters_of(run)] == [True, False, True]


@pytest.mark.lengthy
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
    assert [letter["moved_to"] for letter in (first, second, third)] == ["0:2", "0:2", None]
    assert (third["context"]["moved.from"], third["context"]["moved.first"]) == ("0:1", "0:0")


@pytest.mark.lengthy
def test_a_dry_run_says_which_other_groups_get_the_records(broker: Broker, run: Kshare) -> None:
    broker.create_topic("returns")
    for name, topic in (("shippers", "orders"), ("shippers", "returns"), ("billing", "orders")):
        make_reader(broker, name, topic)
    letter(broker, b"x", ("orders", 0, 9), group="shippers")
    letter(broker, b"y", ("returns", 0, 9), group="shippers")
    names = ("billing", "shippers", "packers", "idle")
    with ExitStack() as stack:
        for name in names:
            topic = "orders" if name != "idle" else "elsewhere"
            stack.enter_context(sync.ShareConsumer(broker.bootstrap, group=name, topics=[topic]))
        deadline = time.monotonic() + DEADLINE
        while not all(name in run("groups", "list").out for name in names):
            assert time.monotonic() < deadline
        *_, first, second = run("dlq", "redrive", GRAVE, "--dry-run").out.splitlines()
        assert first == (
            "all groups that read orders get these records, also consumer groups; "
            "other share groups: billing, packers"
        )
        assert second == "all groups that read returns get these records, also consumer groups"
        found = json.loads(run("dlq", "redrive", GRAVE, "--dry-run", "--json").out)
        assert [letter["other_groups"] for letter in found] == [["billing", "packers"], []]
        letter(broker, b"z", ("orders", 0, 9), group="billing")
        found = json.loads(run("dlq", "redrive", GRAVE, "--dry-run", "--json").out)
        others = [["billing", "packers"], [], ["packers", "shippers"]]
        assert [letter["other_groups"] for letter in found] == others
        broker.create_topic("elsewhere")
        elsewhere = run("dlq", "redrive", GRAVE, "--to", "elsewhere", "--dry-run").out
        assert elsewhere.endswith(
            "all groups that read elsewhere get these records, also consumer groups; other share groups: idle\n"
        )


def test_a_dry_run_needs_no_right_to_list_groups(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ("orders", 0, 9))
    broker.faults.add(ListGroupsRequest, times=None, error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    done = run("dlq", "redrive", GRAVE, "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("all groups that read orders get these records, also consumer groups\n")


@pytest.mark.lengthy
def test_a_record_of_a_group_that_does_not_read_the_topic_is_left(broker: Broker, run: Kshare) -> None:
    """Whoever may write to the dead-letter topic chooses its headers: a redrive has the rights of its user."""
    broker.create_topic("payments")
    letter(broker, b"good", ("orders", 0, 9))
    for group in (GROUP, "nobody", "", "x" * 2000):
        letter(broker, b"forged", ("payments", 0, 9), group=group)
    planned = run("dlq", "redrive", GRAVE, "--dry-run")
    assert "1 dead letter would be redriven: 1 to orders; nothing was changed" in planned.out
    done = run("dlq", "redrive", GRAVE)
    assert (done.code, values(broker, "payments"), values(broker, "orders")) == (1, [], [b"good"])
    assert f"0:1 not redriven: group {GROUP} doesn't read topic payments" in done.out
    assert "0:2 not redriven: group nobody doesn't read topic payments" in done.out
    assert "0:3 not redriven: it names no share group" in done.out
    assert redriven(run, "--to", "payments", "--source", "payments")["targets"] == {"payments": 4}


@pytest.mark.lengthy
def test_a_record_is_not_copied_from_a_topic_that_the_group_does_not_read(
    broker: Broker, run: Kshare
) -> None:
    """Else whoever may write to the dead-letter topic could have any topic copied that the user may read."""
    broker.create_topic("secrets")
    broker.produce("secrets", [b"secret"])
    letter(broker, None, ("secrets", 0, 0))
    found = redriven(run, "--to", "orders", code=1)
    assert found["left"][0]["reason"].startswith("it has no copy of the whole record: ")
    assert values(broker, "orders") == []


@pytest.mark.lengthy
def test_the_right_to_describe_the_group_is_needed(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ("orders", 0, 9))

    def refuse(response: DescribeShareGroupOffsetsResponse) -> None:
        if response.groups[0].group_id == GROUP:
            response.groups[0].error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    broker.faults.add(DescribeShareGroupOffsetsRequest, times=None, change=refuse)
    found = redriven(run, code=1)
    assert found["left"][0]["reason"].startswith(
        f"it can't be checked whether group {GROUP} reads topic orders"
    )
    assert redriven(run, "--to", "orders")["redriven"] == 1
