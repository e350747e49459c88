"""`kshare dlq show`: what became of dead letters that are settled, and where those are that were moved."""

from __future__ import annotations

import json

import pytest

from kshare.cli.dlq import letters_view
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ListOffsetsRequest
from kshare.testing import Broker
from tests.cli.dlq.letters import GRAVE, SETTINGS, letter, letters_of
from tests.cli.running import Kshare
from tests.fakes.bombs import MIB, append, bomb, damaged
from tests.helpers.rejecting import reject


@pytest.mark.lengthy
def test_the_old_place_says_where_the_letter_is(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ("orders", 0, 9))
    letter(broker, b"y", ("orders", 0, 9))
    assert run("dlq", "drop", GRAVE, "--letter", "0:0", "--letter", "0:1").code == 0
    letter(broker, b"x", ("orders", 0, 9), moved_from="0:0")
    assert [letter["moved_to"] for letter in letters_of(run)] == ["0:2", None, None]
    _, first, second, third = run("dlq", "show", GRAVE).out.splitlines()
    assert ("moved to 0:2" in first, " yes" in second, "moved" in third) == (True, True, False)
    explained = run("dlq", "show", GRAVE, "--letter", "0:0", "--explain").out
    assert f"settled by group kshare-dlq-{GRAVE}: moved to 0:2\n" in explained
    (cut_off,) = letters_of(run, "--max", "1")
    assert cut_off["moved_to"] is None, "its copy wasn't read"


@pytest.mark.lengthy
def test_a_moved_letter_that_was_dropped_since_is_said_to_be_settled(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ("orders", 0, 9))
    assert run("dlq", "drop", GRAVE, "--letter", "0:0").code == 0
    letter(broker, b"x", ("orders", 0, 9), moved_from="0:0")
    letter(broker, b"x", ("orders", 0, 9), moved_from="0:1", moved_first="0:0")
    assert run("dlq", "drop", GRAVE, "--letter", "0:2").code == 0
    _, first, second, third = run("dlq", "show", GRAVE).out.splitlines()
    said = "moved to 0:2, and settled there"
    assert (said in first, said in second, " yes" in third) == (True, True, True)
    assert [letter["moved_to"] for letter in letters_of(run)] == ["0:2", "0:2", None]
    assert f": {said}\n" in run("dlq", "show", GRAVE, "--explain").out


@pytest.mark.lengthy
def test_brokers_do_not_tell_given_up_letters_from_settled_ones_for_ever(broker: Broker, run: Kshare) -> None:
    group = f"kshare-dlq-{GRAVE}"
    broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    letter(broker, b"x", ("orders", 0, 9))
    reject(broker.bootstrap, group, GRAVE, 1)
    assert [letter["given_up"] for letter in letters_of(run)] == [True]
    letter(broker, b"y", ("orders", 0, 9))
    done = run("dlq", "drop", GRAVE, "--all")
    assert "1 dead letter dropped" in done.out
    assert done.err.endswith("; it stays in the topic: use another --group to drop it\n")
    assert [(letter["settled"], letter["given_up"]) for letter in letters_of(run)] == [
        (True, None),
        (True, False),
    ]
    explained = run("dlq", "show", GRAVE, "--letter", "0:0", "--explain").out
    assert "redriven, dropped or moved; or given up, which brokers no longer distinguish\n" in explained


@pytest.mark.lengthy
def test_a_batch_that_cannot_be_read_hides_only_its_own_letters(broker: Broker, run: Kshare) -> None:
    letter(broker, b"x", ("orders", 0, 9))
    append(broker, GRAVE, bomb(160 * MIB))
    append(broker, GRAVE, damaged())
    letter(broker, b"y", ("orders", 0, 9))
    listed = run("dlq", "list", "--json")
    assert [load["letters"] for load in json.loads(listed.out)] == [2]
    for words in (["list"], ["show", GRAVE], ["drop", GRAVE, "--all", "--dry-run"]):
        done = run("dlq", *words)
        assert done.code == 1
        assert "dlq.orders[0]: offsets 1 can't be read, and are left out" in done.err
        assert "dlq.orders[0]: offsets 2 can't be read, and are left out" in done.err
    assert all(place in run("dlq", "show", GRAVE).out for place in ("0:0", "0:3"))
    planned = run("dlq", "redrive", GRAVE, "--dry-run", "--json")
    assert [(load["offset"], load["to"]) for load in json.loads(planned.out)] == [
        (0, "orders"),
        (3, "orders"),
    ]


def test_a_topic_that_cannot_be_counted_does_not_hide_the_others(broker: Broker, run: Kshare) -> None:
    """One that is deleted meanwhile, for instance: nothing was listed."""
    broker.create_topic("dlq.gone", settings={f"{SETTINGS}group.enable": "true"})
    letter(broker, b"x", ("orders", 0, 9))
    broker.faults.add(
        ListOffsetsRequest,
        times=None,
        when=lambda request: request.topics[0].name == "dlq.gone",
        error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
    listed = run("dlq", "list", "--json")
    assert {load["topic"]: load["letters"] for load in json.loads(listed.out)} == {"dlq.gone": None, GRAVE: 1}
    assert listed.code == 1
    assert "the dead letters in dlq.gone can't be counted: " in listed.err


@pytest.mark.lengthy
def test_long_values_are_cut_and_their_sum_is_bounded(
    broker: Broker, run: Kshare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a list they aren't kept at all."""
    monkeypatch.setattr(letters_view, "_MOST_SHOWN", 3 * MIB)
    data = bomb(2 * MIB)
    for _ in range(5):
        append(broker, GRAVE, data)
    assert len(run("dlq", "show", GRAVE).out.splitlines()) == 6
    shown = run("dlq", "show", GRAVE, "--json")
    assert (shown.code, "would take too much memory" in shown.err) == (1, True)
    assert len(json.loads(shown.out)) == 3
