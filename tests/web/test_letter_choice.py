"""Choices of dead letters: from fields to a selection, to other fields, and to commands."""

from __future__ import annotations

import shlex

import pytest
from starlette.exceptions import HTTPException

from kshare.dead_letters.selection import Selection
from kshare.web.letter_choice import LetterChoice


def test_fields_make_a_selection() -> None:
    wanted = {"topic": "dlq.a", "source": "a", "from_group": "g", "reason": " often ", "since": "2026-01-31"}
    found = LetterChoice.of(wanted, ["1:7", "0:3", "1:7"])
    assert found.selection == Selection(
        frozenset({"a"}),
        frozenset({"g"}),
        ("often",),
        1_769_817_600_000,
        None,
        frozenset({(0, 3), (1, 7)}),
    )
    assert found.tracker == "kshare-dlq-dlq.a"
    assert (found.letters, found.text) == (
        "0:3 1:7",
        "source a, from group g, reason often, since 2026-01-31, letters 0:3 1:7",
    )


@pytest.mark.lengthy
def test_long_choices_are_shortened() -> None:
    """They are written into the audit log, and shown on each page of a job."""
    found = LetterChoice.of(
        {"topic": "dlq.a", "reason": "x" * 5_000}, [f"0:{number}" for number in range(200)]
    )
    assert found.text == f"reason {'x' * 100}…, letters 0:0 0:1 0:2 0:3 0:4 and 195 more"
    assert found.letters.endswith(" 0:199")
    with pytest.raises(
        HTTPException, match="201 dead letters were chosen one by one, and at most 200 can be"
    ):
        LetterChoice.of({"topic": "dlq.a"}, [f"0:{number}" for number in range(201)])


@pytest.mark.lengthy
def test_its_own_fields_make_the_same_choice() -> None:
    wanted = {"topic": "dlq.a", "reason": "x", "to": "b", "tracker": "t"}
    found = LetterChoice.of(wanted, ())
    assert LetterChoice.of(found.fields, ()) == found


def test_commands_are_quoted() -> None:
    found = LetterChoice.of({"topic": "dlq.a", "reason": "it's; rm -rf", "to": "b", "tracker": "t"}, ["0:3"])
    words = shlex.split(found.command("redrive", "kafka:9092"))
    assert words[:6] == ["kshare", "dlq", "redrive", "dlq.a", "--reason", "it's; rm -rf"]
    assert words[6:] == ["--letter", "0:3", "--to", "b", "--group", "t", "--bootstrap-server", "kafka:9092"]
    dropping = LetterChoice.of({"topic": "dlq.a"}, ()).command("drop", "kafka:9092")
    assert dropping == "kshare dlq drop dlq.a --all --bootstrap-server kafka:9092"
    trying = LetterChoice.of({"topic": "dlq.a"}, ()).command("redrive", "kafka:9092", is_dry_run=True)
    assert trying == "kshare dlq redrive dlq.a --dry-run --bootstrap-server kafka:9092"


@pytest.mark.parametrize("letter", ["1", "1:", "a:b", "-1:2", "1:2:3", "1:99999999999999999999"])
def test_wrong_places_are_refused(letter: str) -> None:
    with pytest.raises(HTTPException, match="400"):
        LetterChoice.of({"topic": "dlq.a"}, [letter])


def test_wrong_times_are_refused() -> None:
    with pytest.raises(HTTPException, match="write it as"):
        _ = LetterChoice.of({"topic": "dlq.a", "since": "soon"}, ()).selection
