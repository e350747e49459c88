"""Drops: what is said of dead letters that brokers didn't confirm, and of copies."""

from __future__ import annotations

import json

import pytest

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ShareAcknowledgeRequest
from kshare.testing import Broker
from tests.cli.dlq.letters import GRAVE, letter, letters_of
from tests.cli.running import Kshare


@pytest.mark.lengthy
def test_a_drop_that_the_broker_refuses_is_not_called_redelivered(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ("orders", 0, 9))
    broker.faults.add(ShareAcknowledgeRequest, error=ErrorCode.UNKNOWN_SERVER_ERROR)
    done = run("dlq", "drop", GRAVE, "--all")
    assert done.code == 1
    assert done.out == (
        f"0 dead letters dropped\n1 dead letter may or may not be dropped: see kshare dlq show {GRAVE}\n"
    )
    assert done.err.startswith("kshare: the broker hasn't confirmed that 1 dead letter was dropped: ")
    assert json.loads(run("dlq", "drop", GRAVE, "--all", "--json").out)["unconfirmed"] == 0


@pytest.mark.lengthy
def test_the_copy_of_a_dropped_letter_is_settled(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ("orders", 0, 9))
    letter(broker, b"x", ("orders", 0, 9), moved_from="0:0")
    done = run("dlq", "drop", GRAVE, "--letter", "0:1")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "1 dead letter dropped\n1 duplicate settled: moves that were interrupted had left copies\n"
    )
    assert [letter["settled"] for letter in letters_of(run)] == [True, True]


@pytest.mark.lengthy
def test_a_dry_run_shows_duplicates(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ("orders", 0, 9), message="Broken.")
    letter(broker, b"x", ("orders", 0, 9), message="Broken.", moved_from="0:0")
    heads, first, second, count = run("dlq", "drop", GRAVE, "--all", "--dry-run").out.splitlines()
    assert heads.split()[-2:] == ["DUPLICATE", "REASON"]
    assert [letter.split()[-2:] for letter in (first, second)] == [["-", "Broken."], ["yes", "Broken."]]
    assert count == "1 dead letter would be dropped, and 1 duplicate settled; nothing was changed"
    found = json.loads(run("dlq", "drop", GRAVE, "--all", "--dry-run", "--json").out)
    assert [letter["is_duplicate"] for letter in found] == [False, True]
    done = json.loads(run("dlq", "drop", GRAVE, "--all", "--json").out)
    assert (done["dropped"], done["duplicates"]) == (1, 1)
    assert [letter["settled"] for letter in letters_of(run)] == [True, True]


@pytest.mark.lengthy
def test_a_dry_run_with_a_maximum_counts_duplicates_as_the_run_does(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ("orders", 0, 9))
    letter(broker, b"x", ("orders", 0, 9), moved_from="0:0")
    letter(broker, b"y", ("orders", 0, 9))
    planned = json.loads(run("dlq", "drop", GRAVE, "--all", "--max", "2", "--dry-run", "--json").out)
    assert [letter["is_duplicate"] for letter in planned] == [False, True, False]
    done = json.loads(run("dlq", "drop", GRAVE, "--all", "--max", "2", "--json").out)
    assert (done["dropped"], done["duplicates"]) == (2, 1)
